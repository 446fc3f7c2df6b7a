"""Type promotion: dtypes and values as in PyTorch, of all pairs of dtypes, and with zero-dim tensors and numbers.

Numbers that become elements of a dtype which cannot hold them are refused, as in PyTorch."""

import itertools

import pytest
import torch
from library import DTYPES, Library, Refused, dtype_text

LEFT, RIGHT = [-3, 2, 5, 0], [2, -1, 3, 1]
NUMBERS = (3, -2.5, True)

# (how PyTorch is called, how the graph calls it, what second operands it takes)
ALL, TENSORS, NUMBER = ("tensor", "zero-dim", "number"), ("tensor", "zero-dim"), ("number",)
OPS = {
    "add": ("aten.add.Tensor", ALL),
    "sub": ("aten.sub.Tensor", ALL),
    "mul": ("aten.mul.Tensor", ALL),
    "div": ("aten.div.Tensor", ALL),
    "rsub": ("aten.rsub.Scalar", NUMBER),
    "pow": ("aten.pow.Tensor_Tensor", TENSORS),
    "pow_number": ("aten.pow.Tensor_Scalar", NUMBER),
    "number_pow": ("aten.pow.Scalar", NUMBER),
    "remainder": ("aten.remainder.Tensor", TENSORS),
    "remainder_number": ("aten.remainder.Scalar", NUMBER),
    "fmod": ("aten.fmod.Tensor", TENSORS),
    "fmod_number": ("aten.fmod.Scalar", NUMBER),
    "floor_divide": ("aten.floor_divide", ALL),
    "minimum": ("aten.minimum", TENSORS),
    "maximum": ("aten.maximum", TENSORS),
    "fmax": ("aten.fmax", TENSORS),
    "atan2": ("aten.atan2", TENSORS),
    "copysign": ("aten.copysign.Tensor", TENSORS),
    "lshift": ("aten.bitwise_left_shift.Tensor", TENSORS),
    "rshift": ("aten.bitwise_right_shift.Tensor", TENSORS),
    "where": ("aten.where.self", TENSORS),
    "where_number": ("aten.where.ScalarOther", NUMBER),
    "number_where": ("aten.where.ScalarSelf", NUMBER),
    "cat": ("aten.cat", ("tensor",)),
    "stack": ("aten.stack", ("tensor",)),
    "masked_fill": ("aten.masked_fill.Scalar", NUMBER),
    "masked_fill_tensor": ("aten.masked_fill.Tensor", ("zero-dim",)),
    "logical_xor": ("aten.logical_xor", TENSORS),
    "clamp": ("aten.clamp_min", NUMBER),
    "clamp_tensor": ("aten.clamp_min.Tensor", TENSORS),
}
for name in ("eq", "ne", "lt", "le", "gt", "ge"):
    OPS[name] = (f"aten.{name}.Tensor", TENSORS)
    OPS[name + "_number"] = (f"aten.{name}.Scalar", NUMBER)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    OPS[name] = (f"aten.{name}.Tensor", TENSORS)
    OPS[name + "_number"] = (f"aten.{name}.Scalar", NUMBER)
for mode in ("floor", "trunc"):
    OPS["div_" + mode] = ("aten.div.Tensor_mode", TENSORS)

MASK = torch.tensor([True, False, False, True])


def tensor(values, dtype):
    x = torch.tensor(values)
    return (x.abs() if dtype in (torch.uint8, torch.bool) else x).to(dtype)


def literal(number):
    return str(number).lower()


def function_of(op):
    namespace, name, *overload = op.split(".")
    return getattr(getattr(torch.ops.aten, name), overload[0] if overload else "default")


class Call:
    """One node, by PyTorch and in the text form."""

    def __init__(self, name, first, second):
        self.op = OPS[name][0]
        self.tensors = [x for x in (first, second) if isinstance(x, torch.Tensor)]
        words = [f"%{i}" if isinstance(x, torch.Tensor) else literal(x) for i, x in enumerate((first, second))]
        self.keywords, self.order = {}, [0, 1]
        if name in ("cat", "stack"):
            self.arguments, self.words = [[first, second]], [f"[{', '.join(words)}]"]
        elif name.startswith(("where", "number_where")):
            self.tensors.append(MASK)
            swap = name == "number_where"
            self.arguments = [MASK, *((second, first) if swap else (first, second))]
            self.words = ["%2", *(words[::-1] if swap else words)]
        elif name.startswith("masked_fill"):
            self.tensors.append(MASK)
            self.arguments, self.words = [first, MASK, second], [words[0], "%2", words[1]]
        elif name == "number_pow":
            self.arguments, self.words = [second, first], words[::-1]
        else:
            self.arguments, self.words = [first, second], words
        if name.startswith("div_"):
            self.keywords = {"rounding_mode": name[4:]}
            self.words.append(f'rounding_mode="{name[4:]}"')

    def eager(self):
        try:
            return function_of(self.op)(*self.arguments, **self.keywords)
        except (RuntimeError, TypeError) as error:
            return error

    def node(self, output, names):
        words = ", ".join(self.words)
        for mark, name in names.items():
            words = words.replace(mark, name)
        return f"%{output} = {self.op}({words})"


def calls(name):
    for dtype, form in itertools.product(DTYPES, OPS[name][1]):
        first = tensor(LEFT, dtype)
        if form == "number":
            for number in NUMBERS:
                yield Call(name, first, number)
            continue
        for other in DTYPES:
            second = tensor(RIGHT if form == "tensor" else 3, other)
            yield Call(name, first, second)
            if form == "zero-dim" and name != "masked_fill_tensor":
                yield Call(name, tensor(3, dtype), tensor(RIGHT, other))
                yield Call(name, tensor(5, dtype), second)


def declare(kind, name, x):
    elements = ""
    if kind == "const":
        elements = " = {" + ", ".join(literal(v) for v in x.reshape(-1).tolist()) + "}"
    return f"{kind} %{name}: {dtype_text(x.dtype)}[{', '.join(map(str, x.shape))}]{elements}"


def program(calls, kind):
    """One graph of all calls, and its inputs."""
    lines, inputs = [], []
    for i, call in enumerate(calls):
        positions = [0, 1][: len(call.tensors) - (call.tensors[-1] is MASK)] + [2] * (call.tensors[-1] is MASK)
        names = {}
        for position, x in zip(positions, call.tensors):
            names[f"%{position}"] = f"%x{len(inputs)}"
            lines.append(declare(kind, f"x{len(inputs)}", x))
            inputs.append(x)
        lines += [call.node(f"y{i}", names), f'output "o{i}" = %y{i}']
    return "graph g {\n" + "\n".join(lines) + "\n}\n", inputs if kind == "input" else []


@pytest.fixture(scope="module")
def library(tenon):
    return Library(tenon.library)


@pytest.mark.parametrize("name", OPS)
def test_promotion(library, name):
    every = [(call, call.eager()) for call in calls(name)]
    good = [(call, want) for call, want in every if isinstance(want, torch.Tensor)]
    assert good
    for kind, backend in itertools.product(("input", "const"), ("auto", "reference")):
        text, inputs = program([call for call, _ in good], kind)
        got = library.parse(text, backend).run(*inputs)
        for (call, want), result in zip(good, got, strict=True):
            told = f"{call.op}{call.arguments} gives {result}, PyTorch {want} ({kind}, {backend})"
            assert result.dtype == want.dtype and result.shape == want.shape, told
            if not torch.equal(result, want):
                torch.testing.assert_close(result, want, equal_nan=True, msg=told)
    for call, error in every:
        if isinstance(error, torch.Tensor):
            continue
        for kind in ("input", "const"):
            with pytest.raises(Refused):
                text, inputs = program([call], kind)
                library.parse(text).run(*inputs)
                pytest.fail(f"{call.op}{call.arguments} runs, PyTorch: {error}", pytrace=False)


# Of x, a mask and indices, all of size 3, and a number.
FILLS = {
    "aten.full": lambda x, m, i, n: ([3], n),
    "aten.full_like": lambda x, m, i, n: (x, n),
    "aten.fill.Scalar": lambda x, m, i, n: (x, n),
    "aten.masked_fill.Scalar": lambda x, m, i, n: (x, m, n),
    "aten.index_fill.int_Scalar": lambda x, m, i, n: (x, 0, i, n),
    "aten.scatter.value": lambda x, m, i, n: (x, 0, i, n),
    "aten.constant_pad_nd": lambda x, m, i, n: (x, [1, 1], n),
    "aten.where.ScalarOther": lambda x, m, i, n: (m, x, n),
    "aten.scalar_tensor": lambda x, m, i, n: (n,),
    "aten.threshold": lambda x, m, i, n: (x, 1, n),
    "aten.clamp": lambda x, m, i, n: (x, n),
    "aten.clamp_max": lambda x, m, i, n: (x, n),
    "aten.add.Tensor": lambda x, m, i, n: (x, n),
    "aten.lt.Scalar": lambda x, m, i, n: (x, n),
    "aten.remainder.Scalar": lambda x, m, i, n: (x, n),
    "aten.bitwise_and.Scalar": lambda x, m, i, n: (x, n),
    "aten.floor_divide": lambda x, m, i, n: (x, n),
    "aten.pow.Tensor_Scalar": lambda x, m, i, n: (x, n),
}
WIDE_NUMBERS = (300, -1, -300, -2.5, 1e10, 3000000000, 70000.0, float("inf"), float("nan"), 1e39)


@pytest.mark.parametrize("op", FILLS)
def test_numbers_that_do_not_fit(library, op):
    inputs = [None, torch.tensor([True, False, True]), torch.tensor([0, 2])]
    # bfloat16 may be made of float32, with its largest numbers.
    for dtype, number in itertools.product([d for d in DTYPES if d != torch.bfloat16], WIDE_NUMBERS):
        inputs[0] = torch.ones(3, dtype=dtype)
        arguments, words = FILLS[op](*inputs, number), FILLS[op]("%x", "%m", "%i", literal(number))
        made = op.endswith(("full", "scalar_tensor"))
        keywords, more = ({"dtype": dtype}, f", dtype={dtype_text(dtype)}") if made else ({}, "")
        try:
            want = function_of(op)(*arguments, **keywords)
        except (RuntimeError, TypeError, ZeroDivisionError) as error:
            want = error
        node = f"%y = {op}({', '.join(map(str, words))}{more})"
        text = (
            "graph g {\n"
            + "\n".join(declare("input", n, x) for n, x in zip("xmi", inputs))
            + f'\n{node} output "y" = %y }}'
        )
        try:
            got = library.parse(text).run(*inputs)[0]
        except Refused as error:
            got = error
        told = f"{node} of {dtype_text(dtype)} gives {got}, PyTorch {want}"
        assert isinstance(want, torch.Tensor) == isinstance(got, torch.Tensor), told
        if isinstance(want, torch.Tensor):
            assert got.dtype == want.dtype, told
            torch.testing.assert_close(got, want, equal_nan=True, msg=told)
