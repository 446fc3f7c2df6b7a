"""Random programs of views and writes in place, which export keeps as they are written."""

import random

import torch

OVERLAPPING = ("expand", "expand_as", "broadcast_to", "unfold", "as_strided")


class Step:
    """function(*values, *parameters), of values by their numbers."""

    def __init__(self, function, operands, parameters=(), name=None):
        self.function, self.operands, self.parameters = function, operands, parameters
        self.name = name or function.__name__

    def __call__(self, values):
        return self.function(*(values[i] for i in self.operands), *self.parameters)

    def __str__(self):
        operands = [f"v{i}" for i in self.operands] + [repr(p) for p in self.parameters]
        return f"{self.name}({', '.join(operands)})"


class Program(torch.nn.Module):
    """Takes tensors, makes views of them and of buffers, writes, and returns some of all it holds."""

    def __init__(self, seed, steps=12):
        super().__init__()
        self.random = random.Random(seed)
        self.steps = []
        self.inputs = [self.new_tensor() for _ in range(self.random.randint(1, 2))]
        self.buffers_made = self.random.randint(0, 2)
        for i in range(self.buffers_made):
            self.register_buffer(f"state{i}", self.new_tensor())
        # Making the program runs it: what PyTorch refuses is left out.
        values = self.first_values([x.clone() for x in self.inputs], [b.clone() for b in self.buffers()])
        self.may_write = [True] * len(values)
        self.own = [False] * len(values)  # made by an operator, not seen by anyone else
        tries = 0
        while len(self.steps) < steps and tries < 20 * steps:
            tries += 1
            step, kind = self.new_step(values)
            if step is None:
                continue
            try:
                made = step(values)
            except (RuntimeError, IndexError, TypeError):
                continue
            self.steps.append((step, kind))
            self.take(values, kind, made)
            source = self.may_write[step.operands[0]]
            overlaps = step.name in OVERLAPPING and kind == "view"
            fresh = kind == "new" and made.data_ptr() not in {x.data_ptr() for x in values[: len(self.own)]}
            self.own += [fresh] * (len(values) - len(self.own))
            self.may_write += [kind == "new" or (source and not overlaps)] * (len(values) - len(self.may_write))
        count = self.random.randint(2, 5)
        self.results = [self.random.randrange(len(values)) for _ in range(count)]

    # ---- Running ----

    @staticmethod
    def first_values(inputs, buffers):
        return list(inputs) + list(buffers)

    @staticmethod
    def take(values, kind, made):
        if kind != "write":
            values.extend(made if isinstance(made, (tuple, list)) else [made])

    def forward(self, *inputs):
        values = self.first_values(inputs, self.buffers())
        for step, kind in self.steps:
            self.take(values, kind, step(values))
        return tuple(values[i] for i in self.results)

    def __str__(self):
        lines = [f"v{i} = {tuple(x.shape)} {x.dtype}" for i, x in enumerate([*self.inputs, *self.buffers()])]
        return "\n".join([*lines, *(f"{kind} {step}" for step, kind in self.steps), f"return {self.results}"])

    # ---- Making ----

    def pick(self, *choices):
        return self.random.choice(choices)

    def new_tensor(self, shape=None, dtype=None):
        """Small numbers, so that sums and products are exact."""
        shape = (
            shape if shape is not None else [self.random.choice([1, 2, 2, 3, 4]) for _ in range(self.pick(1, 2, 2, 3))]
        )
        dtype = dtype or self.pick(
            torch.float32, torch.float32, torch.float32, torch.int64, torch.float64, torch.bfloat16
        )
        generator = torch.Generator().manual_seed(self.random.randrange(2**31))
        x = torch.randint(-4, 5, shape, generator=generator)
        return x > 0 if dtype == torch.bool else x.to(dtype)

    def fitting(self, values, target):
        """The number of a value that broadcasts to the target's shape, or None."""
        fits = []
        for i, value in enumerate(values):
            try:
                same = torch.broadcast_shapes(value.shape, target.shape) == target.shape
            except RuntimeError:
                continue
            if same:
                fits.append(i)
        return self.random.choice(fits)

    def new_step(self, values):
        i = self.random.randrange(len(values))
        # Later values are more often views of others.
        if self.random.random() < 0.5:
            i = self.random.randrange(len(values) // 2, len(values))
        kind = self.pick("view", "view", "view", "write", "write", "write", "new")
        if kind == "write" and not self.may_write[i]:
            return None, kind
        step = getattr(self, "new_" + kind)(values, i, values[i])
        return step, kind

    def new_view(self, values, i, x):
        rank, dim = x.dim(), self.random.randrange(-x.dim(), x.dim()) if x.dim() else 0
        size = x.shape[dim] if rank else 1
        other = self.random.randrange(-rank, rank) if rank else 0
        at, start = self.random.randrange(-size, size) if size else 0, self.random.randint(-size, size)
        part = self.random.randint(1, max(1, size))
        order = self.random.sample(range(rank), rank)
        name = self.pick(
            "select",
            "select",
            "slice",
            "slice",
            "transpose",
            "view",
            "view",
            "expand",
            "unsqueeze",
            "split",
            "chunk",
            "unbind",
            "diagonal",
            "as_strided",
            "narrow",
            "squeeze",
            "squeeze_dim",
            "unfold",
            "permute",
            "t",
            "flatten",
            "reshape",
            "contiguous",
            "detach",
            "movedim",
            "split_with_sizes",
            "tensor_split",
            "unflatten",
            "view_as",
            "expand_as",
            "swapaxes",
            "mT",
            "alias",
            "to_same",
            "ravel",
            "broadcast_to",
        )
        t = torch.Tensor
        aten = torch.ops.aten
        made = {
            "select": lambda: (t.select, dim, at),
            "slice": lambda: (aten.slice.Tensor, dim, start, start + self.random.randint(0, 4), self.pick(1, 1, 2)),
            "transpose": lambda: (t.transpose, dim, other),
            "swapaxes": lambda: (t.swapaxes, dim, other),
            "view": lambda: (t.view, self.pick([-1], [size, -1], [x.numel()], [1, -1], [-1, 2])),
            "reshape": lambda: (t.reshape, self.pick([-1], [size, -1], [1, -1], [-1, 2])),
            "flatten": lambda: (t.flatten, self.pick(0, dim)),
            "ravel": lambda: (t.ravel,),
            "expand": lambda: (t.expand, [2, *x.shape]),
            "broadcast_to": lambda: (t.broadcast_to, [1, *x.shape]),
            "unsqueeze": lambda: (t.unsqueeze, self.random.randint(-rank - 1, rank)),
            "squeeze": lambda: (t.squeeze,),
            "squeeze_dim": lambda: (t.squeeze, dim),
            "split": lambda: (t.split, part, dim),
            "split_with_sizes": lambda: (t.split, [part, size - part], dim),
            "chunk": lambda: (t.chunk, self.random.randint(1, 3), dim),
            "tensor_split": lambda: (t.tensor_split, self.random.randint(1, 3), dim),
            "unbind": lambda: (t.unbind, dim),
            "diagonal": lambda: (t.diagonal, self.pick(0, 0, 1, -1), dim, other),
            "narrow": lambda: (t.narrow, dim, self.random.randint(0, size - part) if size else 0, part),
            "unfold": lambda: (t.unfold, dim, part, self.pick(1, 2)),
            "permute": lambda: (t.permute, order),
            "t": lambda: (t.t,),
            "mT": lambda: (lambda y: y.mT,),
            "contiguous": lambda: (t.contiguous,),
            "detach": lambda: (t.detach,),
            "alias": lambda: (aten.alias,),
            "movedim": lambda: (t.movedim, dim, other),
            "unflatten": lambda: (t.unflatten, dim, [-1, self.pick(1, 2)]),
            "to_same": lambda: (t.to, x.dtype),
        }
        if name == "as_strided":
            if x.numel() < 4 or not x.is_contiguous():
                return None
            sizes, strides, offset = self.pick(([2, 2], [2, 1], 0), ([2], [2], 1), ([2, 2], [1, 2], 0), ([3], [1], 1))
            return Step(t.as_strided, [i], (sizes, strides, x.storage_offset() + offset), "as_strided")
        if name in ("view_as", "expand_as"):
            return Step(getattr(t, name), [i, self.random.randrange(len(values))], (), name)
        function, *parameters = made[name]()
        return Step(function, [i], tuple(parameters), name)

    def new_new(self, values, i, x):
        t = torch.Tensor
        j = self.random.randrange(len(values))
        function, *parameters = self.pick(
            (lambda y: y * 2, "twice"),
            (lambda y: y + 1, "next"),
            (t.clone,),
            (t.neg,),
            (lambda y: y.sum(), "sum"),
            (lambda y: y.to(torch.float64), "to_double"),
            (lambda y: y > 0, "positive"),
            (lambda y: torch.cat([y, y]), "cat"),
        )
        if self.random.random() < 0.3:
            return Step(torch.add, [i, j])
        return Step(function, [i], (), parameters[0] if parameters else None)

    def new_write(self, values, i, x):
        t, rank = torch.Tensor, x.dim()
        dim = self.random.randrange(-rank, rank) if rank else 0
        size = x.shape[dim] if rank else 1
        number = self.pick(-1, 2, 3, 0.5) if x.is_floating_point() else self.pick(-1, 2, 3)
        if x.dtype == torch.bool:
            number = True
        operand = self.fitting(values, x)
        name = self.pick(
            "add_",
            "add_",
            "add_scalar",
            "sub_",
            "mul_",
            "mul_scalar",
            "copy_",
            "copy_",
            "fill_",
            "zero_",
            "relu_",
            "neg_",
            "abs_",
            "clamp_",
            "masked_fill_",
            "index_put_",
            "index_put_mask",
            "accumulate",
            "scatter_",
            "scatter_add_",
            "index_add_",
            "index_copy_",
            "index_fill_",
            "tril_",
            "triu_",
            "ge_",
            "logical_not_",
            "bitwise_not_",
            "addcmul_",
            "clamp_min_",
            "div_",
            "floor_divide_",
            "remainder_",
            "cumsum_",
            "set_item",
            "add_broken",
            "masked_scatter_",
            "hardtanh_",
            "pow_",
            "maximum_out",
            "lerp_",
            "square_",
            "sign_",
            "t_",
            "squeeze_",
            "unsqueeze_",
            "scatter_reduce_",
            "fill_tensor",
            "where_mask",
        )
        rows = self.new_tensor([2], torch.int64) % max(1, size)
        mask = self.new_tensor(x.shape, torch.bool)
        constant = {
            "add_scalar": lambda: (t.add_, number),
            "mul_scalar": lambda: (t.mul_, number),
            "fill_": lambda: (t.fill_, number),
            "zero_": lambda: (t.zero_,),
            "relu_": lambda: (t.relu_,),
            "neg_": lambda: (t.neg_,),
            "abs_": lambda: (t.abs_,),
            "clamp_": lambda: (t.clamp_, -2, 3),
            "clamp_min_": lambda: (t.clamp_min_, -1),
            "hardtanh_": lambda: (torch.nn.functional.hardtanh_, -3, 2),
            "tril_": lambda: (t.tril_, self.pick(0, 1)),
            "triu_": lambda: (t.triu_, self.pick(0, -1)),
            "ge_": lambda: (t.ge_, 1),
            "logical_not_": lambda: (t.logical_not_,),
            "bitwise_not_": lambda: (t.bitwise_not_,),
            "div_": lambda: (t.div_, 2),
            "floor_divide_": lambda: (t.floor_divide_, 2),
            "remainder_": lambda: (t.remainder_, 3),
            "cumsum_": lambda: (t.cumsum_, dim),
            "pow_": lambda: (t.pow_, 2),
            "square_": lambda: (t.square_,),
            "sign_": lambda: (t.sign_,),
            "t_": lambda: (t.t_,),
            "squeeze_": lambda: (t.squeeze_,),
            "unsqueeze_": lambda: (t.unsqueeze_, 0),
            "masked_fill_": lambda: (lambda y: y.masked_fill_(mask, number),),
            "index_fill_": lambda: (lambda y: y.index_fill_(dim, rows, number),),
            "set_item": lambda: (lambda y: y.__setitem__(0, number),),
            "scatter_": lambda: (lambda y: y.scatter_(dim, torch.zeros([1] * y.dim(), dtype=torch.int64), number),),
            "index_put_": lambda: (lambda y: y.index_put_((rows,), torch.tensor(number, dtype=y.dtype)),),
            "index_put_mask": lambda: (lambda y: y.__setitem__(mask, number),),
        }
        if name in constant:
            if name in ("t_", "squeeze_", "unsqueeze_", "transpose_") and not self.own[i]:
                return None
            function, *parameters = constant[name]()
            return Step(function, [i], tuple(parameters), name)
        functions = {
            "add_": lambda y, z: y.add_(z, alpha=1),
            "sub_": lambda y, z: y.sub_(z, alpha=2),
            "mul_": t.mul_,
            "copy_": t.copy_,
            "add_broken": lambda y, z: y.__iadd__(z),
            "accumulate": lambda y, z: y.index_put_((rows,), z[:1].to(y.dtype), True),
            "scatter_add_": lambda y, z: y.scatter_add_(dim, torch.zeros(z.shape, dtype=torch.int64), z),
            "index_add_": lambda y, z: y.index_add_(dim, torch.arange(z.shape[dim]), z),
            "index_copy_": lambda y, z: y.index_copy_(dim, torch.arange(z.shape[dim]), z),
            "addcmul_": lambda y, z: y.addcmul_(z, z, value=2),
            "masked_scatter_": lambda y, z: y.masked_scatter_(mask, z.expand(y.shape).clone()),
            "maximum_out": lambda y, z: y.copy_(torch.maximum(y, z)),
            "lerp_": lambda y, z: y.lerp_(z, 0.5),
            "scatter_reduce_": lambda y, z: y.scatter_reduce_(dim, torch.zeros(z.shape, dtype=torch.int64), z, "amax"),
            "fill_tensor": lambda y, z: y.fill_(z.sum()),
            "where_mask": lambda y, z: y.copy_(torch.where(mask, y, z)),
        }
        function = functions[name]
        if values[operand].untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            # PyTorch leaves open what comes out when the two overlap in part.
            return Step(lambda y, z: function(y, z.clone()), [i, operand], (), name)
        return Step(function, [i, operand], (), name)
