/* Writes in place, and what PyTorch 2.13 leaves of everything that shares the memory: `want` is all
 * outputs, one after the other. */
#ifndef INPLACE_CASES_H
#define INPLACE_CASES_H

typedef struct inplace_case {
    const char *name, *text;
    int count;
    double want[64];
} inplace_case;

static const inplace_case inplace_cases[] = {
    {"resize",
     "graph g { const %x: float32[2, 3] = {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%r = aten.resize_(%c, [2, 2])\n"
     "%y = aten.mul.Tensor(%r, 2.0)\n"
     "%s = aten.resize_(%c, [3])\n"
     "output \"0\" = %y\noutput \"1\" = %c }\n",
     7,
     {0, 2, 4, 6, 0, 1, 2}},
    {"out",
     "graph g { const %a: float32[2, 2] = {1.0, -2.0, 0.5, 3.0}\n"
     "const %b: float32[2] = {2.0, -1.0}\n"
     "%o = aten.ones([2, 2])\n"
     "%v = aten.t(%o)\n"
     "%w = aten.atan2.out(%a, %b, out=%v)\n"
     "output \"0\" = %o\noutput \"1\" = %w }\n",
     8,
     {0.46364760398864746, 0.244978666305542, -2.0344438552856445, 1.8925468921661377,
      0.46364760398864746, -2.0344438552856445, 0.244978666305542, 1.8925468921661377}},
    {"batch_norm",
     "graph g { const %x: float32[3, 2] = {1.0, 2.0, 3.0, 5.0, -1.0, 0.5}\n"
     "const %w: float32[2] = {1.0, 2.0}\n"
     "const %m: float32[2] = {0.5, -1.0}\nconst %v: float32[2] = {1.0, 2.0}\n"
     "%mean = aten.mul.Tensor(%m, 1.0)\n%var = aten.mul.Tensor(%v, 1.0)\n"
     "%y, %a, %b = aten._native_batch_norm_legit(%x, %w, none, %mean, %var, true, 0.25, 1e-05)\n"
     "%z = aten.relu_(%y)\n"
     "output \"0\" = %y\noutput \"1\" = %a\noutput \"2\" = %mean\noutput \"3\" = %var }\n",
     12,
     {0, 0, 1.2247425317764282, 2.6726086139678955, 0, 0, 1, 2.5, 0.625, -0.125, 1.75, 2.8125}},
    {"view",
     "graph g { const %x: float32[2, 3] = {1.0, -0.875, -0.375, 1.0, -1.875, 1.25}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.view(%c, [3, 2])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {-2, 1.75, 0.75, -2, 3.75, -2.5}},
    {"unsqueeze",
     "graph g { const %x: float32[2, 3] = {-0.375, 1.0, 0.25, -0.25, 0.5, 0.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.unsqueeze(%c, 1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {0.75, -2, -0.5, 0.5, -1, -0.25}},
    {"squeeze",
     "graph g { const %x: float32[2, 1, 3] = {0.75, -0.75, -0.125, -0.125, 0.25, -0.0}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.squeeze.dim(%c, 1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {-1.5, 1.5, 0.25, 0.25, -0.5, 0}},
    {"squeeze_all",
     "graph g { const %x: float32[1, 2, 1] = {1.75, 0.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.squeeze(%c)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     2,
     {-3.5, -1.25}},
    {"squeeze_dims",
     "graph g { const %x: float32[1, 2, 1] = {-0.75, -1.25}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.squeeze.dims(%c, [0, 2])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     2,
     {1.5, 2.5}},
    {"flatten",
     "graph g { const %x: float32[2, 2, 2] = {-0.375, -0.875, -0.625, 0.125, 1.25, 1.125, "
     "-2.0, 1.25}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.flatten.using_ints(%c, 1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     8,
     {0.75, 1.75, 1.25, -0.25, -2.5, -2.25, 4, -2.5}},
    {"unflatten",
     "graph g { const %x: float32[2, 4] = {0.5, 1.875, 1.375, -1.875, -1.875, -1.0, 1.75, "
     "-0.375}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.unflatten.int(%c, 1, [2, 2])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     8,
     {-1, -3.75, -2.75, 3.75, 3.75, 2, -3.5, 0.75}},
    {"permute",
     "graph g { const %x: float32[2, 3, 2] = {0.875, -0.875, 2.0, -0.875, 1.5, 0.0, -1.0, "
     "1.0, -1.0, 0.625, -0.625, -0.25}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.permute(%c, [2, 0, 1])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     12,
     {-1.75, 1.75, -4, 1.75, -3, -0, 2, -2, 2, -1.25, 1.25, 0.5}},
    {"transpose",
     "graph g { const %x: float32[2, 3] = {-1.875, -1.0, 1.125, -0.5, 2.0, 1.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.transpose.int(%c, 0, 1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {3.75, 2, -2.25, 1, -4, -3.25}},
    {"t",
     "graph g { const %x: float32[2, 3] = {-0.125, -1.375, 1.25, 0.625, -1.25, 1.25}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.t(%c)\n"
     "%w = aten.relu_(%v)\n"
     "output \"0\" = %c }\n",
     6,
     {0, 0, 1.25, 0.625, 0, 1.25}},
    {"mT",
     "graph g { const %x: float32[2, 2, 3] = {1.25, 1.75, -1.125, -0.375, -0.0, 0.25, "
     "-1.5, -1.375, 1.125, -0.5, 1.0, 0.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.mT(%c)\n"
     "%w = aten.relu_(%v)\n"
     "output \"0\" = %c }\n",
     12,
     {1.25, 1.75, 0, 0, -0, 0.25, 0, 0, 1.125, 0, 1, 0.125}},
    {"movedim",
     "graph g { const %x: float32[2, 3, 2] = {0.625, 0.5, 0.75, 1.0, -1.875, 1.0, -1.375, "
     "-1.5, 0.125, -0.375, 1.125, -1.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.movedim.int(%c, 0, 2)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     12,
     {-1.25, -1, -1.5, -2, 3.75, -2, 2.75, 3, -0.25, 0.75, -2.25, 2.25}},
    {"movedim_list",
     "graph g { const %x: float32[2, 3, 2] = {-1.75, 1.5, -0.25, 1.125, 0.625, -1.5, "
     "0.375, 0.5, -1.375, -1.0, 0.625, 0.375}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.movedim.intlist(%c, [0, 1], [1, 2])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     12,
     {3.5, -3, 0.5, -2.25, -1.25, 3, -0.75, -1, 2.75, 2, -1.25, -0.75}},
    {"select",
     "graph g { const %x: float32[2, 3] = {-0.875, -0.625, 1.875, -0.375, 1.125, 0.875}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.select.int(%c, 1, -1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {-0.875, -0.625, -3.75, -0.375, 1.125, -1.75}},
    {"slice_step",
     "graph g { const %x: float32[5, 2] = {-1.25, -1.75, 1.875, 0.125, 1.375, 0.375, "
     "0.625, 1.5, 1.875, -1.375}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.slice.Tensor(%c, 0, 1, 5, 2)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     10,
     {-1.25, -1.75, -3.75, -0.25, 1.375, 0.375, -1.25, -3, 1.875, -1.375}},
    {"slice_negative",
     "graph g { const %x: float32[5] = {0.25, 1.5, 1.5, 1.25, -1.5}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.slice.Tensor(%c, 0, -3, -1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     5,
     {0.25, 1.5, -3, -2.5, -1.5}},
    {"narrow",
     "graph g { const %x: float32[5, 2] = {-1.5, -1.25, 0.25, 2.0, -1.25, 1.125, -1.125, "
     "-1.875, -0.375, 1.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.narrow(%c, 0, 1, 2)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     10,
     {-1.5, -1.25, -0.5, -4, 2.5, -2.25, -1.125, -1.875, -0.375, 1.125}},
    {"narrow_to_the_end",
     "graph g { const %x: float32[5] = {1.875, -1.25, 0.375, 1.75, 1.375}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.narrow(%c, 0, -2, 2)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     5,
     {1.875, -1.25, 0.375, -3.5, -2.75}},
    {"diagonal",
     "graph g { const %x: float32[3, 4] = {1.25, 1.375, 1.25, 0.5, -1.375, -1.625, "
     "-0.875, -0.25, -1.25, 0.75, 0.625, -0.5}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.diagonal(%c, 1)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     12,
     {1.25, -2.75, 1.25, 0.5, -1.375, -1.625, 1.75, -0.25, -1.25, 0.75, 0.625, 1}},
    {"as_strided",
     "graph g { const %x: float32[2, 3] = {0.75, 0.625, 1.25, 1.375, -0.625, 2.0}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.as_strided(%c, [2, 2], [3, 2], 0)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {-1.5, 0.625, -2.5, -2.75, -0.625, -4}},
    {"detach",
     "graph g { const %x: float32[3] = {-0.25, -0.125, -1.875}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.detach(%c)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     3,
     {0.5, 0.25, 3.75}},
    {"contiguous",
     "graph g { const %x: float32[2, 2] = {-1.25, -1.125, -0.875, 1.375}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.contiguous(%c)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     4,
     {2.5, 2.25, 1.75, -2.75}},
    {"reshape",
     "graph g { const %x: float32[2, 3] = {-0.625, -1.5, 0.75, 0.625, 1.25, -1.0}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.reshape(%c, [6])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {1.25, 3, -1.5, -1.25, -2.5, 2}},
    {"to_same",
     "graph g { const %x: float32[3] = {0.375, -0.75, -0.5}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.to.dtype(%c, float32)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     3,
     {-0.75, 1.5, 1}},
    {"dropout_eval",
     "graph g { const %x: float32[3] = {-1.625, -0.875, -0.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.dropout(%c, 0.5, false)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     3,
     {3.25, 1.75, 1.25}},
    {"view_as",
     "graph g { const %x: float32[2, 3] = {0.875, 0.375, 0.5, 2.0, 2.0, 1.375}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.view_as(%c, %x)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {-1.75, -0.75, -1, -4, -4, -2.75}},
    {"split",
     "graph g { const %x: float32[5, 2] = {0.125, -1.375, 1.625, -0.5, -0.125, -1.75, "
     "-0.375, -1.25, 1.875, -1.75}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%p0, %p1, %p2 = aten.split.Tensor(%c, 2)\n"
     "%w = aten.mul_.Tensor(%p2, -2.0)\n"
     "output \"c\" = %c\n"
     "output \"0\" = %p0\n"
     "output \"1\" = %p1\n"
     "output \"2\" = %p2 }\n",
     20,
     {0.125, -1.375, 1.625, -0.5, -0.125, -1.75, -0.375, -1.25, -3.75, 3.5,
      0.125, -1.375, 1.625, -0.5, -0.125, -1.75, -0.375, -1.25, -3.75, 3.5}},
    {"split_sizes",
     "graph g { const %x: float32[2, 5] = {-1.5, -0.125, -1.125, 0.75, -0.75, -1.0, "
     "0.125, 1.5, -1.375, 1.0}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%p0, %p1, %p2 = aten.split_with_sizes(%c, [1, 3, 1], 1)\n"
     "%w = aten.mul_.Tensor(%p1, -2.0)\n"
     "output \"c\" = %c\n"
     "output \"0\" = %p0\n"
     "output \"1\" = %p1\n"
     "output \"2\" = %p2 }\n",
     20,
     {-1.5, 0.25, 2.25, -1.5, -0.75, -1,    -0.25, -3,   2.75,  1,
      -1.5, -1,   0.25, 2.25, -1.5,  -0.25, -3,    2.75, -0.75, 1}},
    {"chunk",
     "graph g { const %x: float32[5] = {1.25, 2.0, -1.375, 0.5, -1.5}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%p0, %p1 = aten.chunk(%c, 2)\n"
     "%w = aten.mul_.Tensor(%p1, -2.0)\n"
     "output \"c\" = %c\n"
     "output \"0\" = %p0\n"
     "output \"1\" = %p1 }\n",
     10,
     {1.25, 2, -1.375, -1, 3, 1.25, 2, -1.375, -1, 3}},
    {"tensor_split",
     "graph g { const %x: float32[5] = {1.75, -0.75, 1.25, 0.0, -0.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%p0, %p1, %p2 = aten.tensor_split.sections(%c, 3)\n"
     "%w = aten.mul_.Tensor(%p1, -2.0)\n"
     "output \"c\" = %c\n"
     "output \"0\" = %p0\n"
     "output \"1\" = %p1\n"
     "output \"2\" = %p2 }\n",
     10,
     {1.75, -0.75, -2.5, -0, -0.125, 1.75, -0.75, -2.5, -0, -0.125}},
    {"unbind",
     "graph g { const %x: float32[2, 3] = {-0.125, 0.375, 1.0, 0.375, 0.625, -1.75}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%p0, %p1, %p2 = aten.unbind.int(%c, 1)\n"
     "%w = aten.mul_.Tensor(%p2, -2.0)\n"
     "output \"c\" = %c\n"
     "output \"0\" = %p0\n"
     "output \"1\" = %p1\n"
     "output \"2\" = %p2 }\n",
     12,
     {-0.125, 0.375, -2, 0.375, 0.625, 3.5, -0.125, 0.375, 0.375, 0.625, -2, 3.5}},
    {"unfold_apart",
     "graph g { const %x: float32[5] = {1.5, -0.25, -2.125, 0.625, -1.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.unfold(%c, 0, 2, 3)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     5,
     {-3, 0.5, -2.125, -1.25, 2.25}},
    {"broadcast_to_same_count",
     "graph g { const %x: float32[2, 3] = {-1.375, 0.375, 0.875, -0.75, -0.375, -0.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.broadcast_to(%c, [1, 2, 3])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {2.75, -0.75, -1.75, 1.5, 0.75, 1.25}},
    {"as_strided_of_a_view",
     "graph g { const %x: float32[2, 3] = {-0.625, 0.375, -0.875, -1.5, 0.375, 1.5}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%t = aten.t(%c)\n"
     "%v = aten.as_strided(%t, [3, 2], [2, 1])\n"
     "%s = aten.select.int(%v, 0, 0)\n"
     "%w = aten.mul_.Tensor(%s, -2.0)\n"
     "output \"0\" = %c\n"
     "output \"1\" = %v }\n",
     12,
     {1.25, -0.75, -0.875, -1.5, 0.375, 1.5, 1.25, -0.75, -0.875, -1.5, 0.375, 1.5}},
    {"as_strided_offset",
     "graph g { const %x: float32[2, 3] = {1.0, 0.75, 0.25, 1.25, -1.25, -0.75}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%t = aten.select.int(%c, 0, 1)\n"
     "%v = aten.as_strided(%t, [3], [1], 0)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c }\n",
     6,
     {-2, -1.5, -0.5, 1.25, -1.25, -0.75}},
    {"ravel_copies",
     "graph g { const %x: float32[2, 3] = {1.125, 2.75, 0.125, -0.875, -1.5, -0.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%t = aten.t(%c)\n"
     "%v = aten.ravel(%t)\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c\n"
     "output \"1\" = %v }\n",
     12,
     {1.125, 2.75, 0.125, -0.875, -1.5, -0.625, -2.25, 1.75, -5.5, 3, -0.25, 1.25}},
    {"reshape_of_a_column",
     "graph g { const %x: float32[2, 3] = {1.375, 0.0, -0.25, -0.125, 1.875, 3.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%t = aten.select.int(%c, 1, 0)\n"
     "%v = aten.reshape(%t, [-1])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c\n"
     "output \"1\" = %v }\n",
     8,
     {-2.75, 0, -0.25, 0.25, 1.875, 3.125, -2.75, 0.25}},
    {"reshape_copies",
     "graph g { const %x: float32[2, 3] = {-0.5, -0.375, -1.625, 1.25, 1.375, 1.125}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%t = aten.t(%c)\n"
     "%v = aten.reshape(%t, [-1])\n"
     "%w = aten.mul_.Tensor(%v, -2.0)\n"
     "output \"0\" = %c\n"
     "output \"1\" = %v }\n",
     12,
     {-0.5, -0.375, -1.625, 1.25, 1.375, 1.125, 1, -2.5, 0.75, -2.75, 3.25, -2.25}},
    {"three_aliases",
     "graph g { const %x: float32[2, 3] = {1.5, 1.75, 1.625, 1.5, -1.5, -0.75}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%t = aten.t(%c)\n"
     "%v = aten.select.int(%t, 0, 1)\n"
     "%w = aten.slice.Tensor(%c, 1, 1, 99)\n"
     "%a = aten.add_.Tensor(%v, 1.0)\n"
     "%b = aten.mul_.Tensor(%w, 2.0)\n"
     "%d = aten.relu_(%v)\n"
     "output \"c\" = %c\n"
     "output \"v\" = %v\n"
     "output \"w\" = %w }\n",
     12,
     {1.5, 5.5, 3.25, 1.5, 0, -1.5, 5.5, 0, 5.5, 3.25, 0, -1.5}},
    {"reads_itself",
     "graph g { const %x: float32[2, 2] = {1.75, -1.5, 1.875, -1.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%s = aten.sum(%c)\n"
     "%a = aten.add_.Tensor(%c, %c)\n"
     "%b = aten.div_.Tensor(%a, 2.0)\n"
     "%d = aten.pow_.Scalar(%b, 2)\n"
     "%s1 = aten.view(%s, [1])\n"
     "output \"c\" = %c\n"
     "output \"s\" = %s1 }\n",
     5,
     {3.0625, 2.25, 3.515625, 2.640625, 0.5}},
    {"fills_and_copies",
     "graph g { const %x: float32[2, 3] = {-1.375, 1.0, -1.375, -0.5, 1.5, 1.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "const %k: float32[] = {7}\n"
     "%v = aten.select.int(%c, 0, 0)\n"
     "%a = aten.fill_.Scalar(%v, 3.0)\n"
     "%q = aten.select.int(%c, 0, 1)\n"
     "%z = aten.zero_(%q)\n"
     "%u = aten.view(%c, [-1])\n"
     "%r = aten.slice.Tensor(%u, 0, 0, 2)\n"
     "%y = aten.copy_(%r, %k)\n"
     "output \"c\" = %c\n"
     "output \"u\" = %u\n"
     "output \"v\" = %v }\n",
     15,
     {7, 7, 3, 0, 0, 0, 7, 7, 3, 0, 0, 0, 7, 7, 3}},
    {"indexed",
     "graph g { const %x: float32[2, 3] = {1.875, -0.375, -1.5, 2.0, -0.375, -0.875}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "const %i: int64[2] = {0, 2}\n"
     "const %k: float32[] = {5}\n"
     "const %m: bool[2, 1] = {true, false}\n"
     "%v = aten.select.int(%c, 0, 1)\n"
     "%a = aten.index_put_(%v, [%i], %k)\n"
     "%b = aten.masked_fill_.Scalar(%c, %m, -1.0)\n"
     "output \"c\" = %c }\n",
     6,
     {-1, -1, -1, 5, -0.375, 5}},
    {"metadata_in_place",
     "graph g { const %x: float32[2, 3] = {0.5, -1.375, 1.375, 1.25, -1.625, -1.625}\n"
     "%c = aten.mul.Tensor(%x, 1.0)\n"
     "%v = aten.view(%c, [6])\n"
     "%w = aten.t_(%c)\n"
     "%r = aten.select.int(%w, 0, 0)\n"
     "%q = aten.mul_.Tensor(%r, 3.0)\n"
     "output \"c\" = %w\n"
     "output \"v\" = %v }\n",
     12,
     {1.5, 3.75, -1.375, -1.625, 1.375, -1.625, 1.5, -1.375, 1.375, 3.75, -1.625, -1.625}},
};

#endif
