"""The models that the parity tests run, with seeded random weights.

The weights are random, but spread with care: a fresh model's batch norms do nothing, which hides
mistakes in folding them, and many a fresh model's output hardly depends on its input, which hides
everything else.
"""

import argparse
import contextlib
import importlib.util
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

TORCHVISION = (
    "alexnet",
    "densenet121",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "vgg16",
)
TIMM = (
    "efficientnet_b0",
    "dm_nfnet_f0",
    "regnety_120",
    "resnest14d",
    "vit_small_patch16_224",
    "ese_vovnet39b",
)
TRANSFORMERS = ("bert", "distilbert", "gpt2", "llama")
MODELS = TORCHVISION + TIMM + TRANSFORMERS
MODES = ("raw", "core")

NATIVE_SIZE = 224
SMALL_SIZE = 64
NATIVE_TOKENS = 64
SMALL_TOKENS = 16
VOCABULARY = 4000
FIXED_SIZE = {"vit_small_patch16_224": 224}  # its position embedding fixes the image


def is_text(name):
    return name in TRANSFORMERS


def native_size(name):
    return NATIVE_TOKENS if is_text(name) else FIXED_SIZE.get(name, NATIVE_SIZE)


def small_size(name):
    return SMALL_TOKENS if is_text(name) else FIXED_SIZE.get(name, SMALL_SIZE)


def import_torchvision():
    """torchvision's compiled operators load only beside the very build of torch that they were made
    for. The models need none of them, but the import asks for the schemas of some, which this
    declares where they are missing."""
    if "torchvision" not in sys.modules:
        folder = Path(importlib.util.find_spec("torchvision").origin).parent
        try:
            for library in [*folder.glob("_C.so"), *folder.glob("_C.*.so")]:
                torch.ops.load_library(library)
        except OSError:
            pass
        if not hasattr(torch.ops.torchvision, "nms"):
            library = torch.library.Library("torchvision", "DEF")
            for op in ("nms", "qnms"):
                library.define(op + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            import_torchvision.library = library  # the declarations live as long as this object
    import torchvision

    return torchvision


class TextModel(nn.Module):
    """One plain tensor out of a transformers model, so that the archive has one output."""

    def __init__(self, model, field):
        super().__init__()
        self.model = model
        self.field = field

    def forward(self, input_ids, attention_mask):
        result = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return getattr(result, self.field)


def _text_model(name):
    import_torchvision()
    import transformers

    if name == "bert":
        config = transformers.BertConfig(num_hidden_layers=2, vocab_size=VOCABULARY)
        model, field = transformers.BertModel(config), "last_hidden_state"
    elif name == "distilbert":
        config = transformers.DistilBertConfig(n_layers=2, vocab_size=VOCABULARY)
        model, field = transformers.DistilBertModel(config), "last_hidden_state"
    elif name == "gpt2":
        config = transformers.GPT2Config(
            n_layer=2, vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, use_cache=False
        )
        model, field = transformers.GPT2LMHeadModel(config), "logits"
    else:
        config = transformers.LlamaConfig(
            hidden_size=256,
            intermediate_size=688,
            num_hidden_layers=2,
            num_attention_heads=8,
            num_key_value_heads=4,
            vocab_size=VOCABULARY,
            max_position_embeddings=512,
            use_cache=False,
        )
        model, field = transformers.LlamaForCausalLM(config), "logits"
    return TextModel(model, field)


def _spread_weights(model, generator):
    """Weights of unit gain: with the usual initial ones, many networks' outputs are almost
    independent of the input."""
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                fan_in = layer.weight[0].numel()
                gain = 2.0 if isinstance(layer, nn.Conv2d) else 1.0
                layer.weight.normal_(0.0, (gain / fan_in) ** 0.5, generator=generator)


def _spread_batch_norms(model, images, generator):
    """Gives each batch norm a random scale and shift, and statistics near those of what reaches it:
    never the defaults, and activations keep their scale through any depth."""

    def uniform(like, low, high):
        return torch.empty_like(like).uniform_(low, high, generator=generator)

    def set_norm(norm, arguments):
        x = arguments[0].flatten(2) if arguments[0].dim() > 2 else arguments[0][..., None]
        mean = x.mean((0, 2))
        variance = x.var((0, 2), unbiased=False)
        variance = variance.clamp(min=variance.mean().item() * 0.1 + 1e-6)  # constant channels
        norm.running_mean.copy_(mean + variance.sqrt() * uniform(mean, -0.3, 0.3))
        norm.running_var.copy_(variance * uniform(mean, 0.7, 1.4))
        norm.weight.copy_(uniform(mean, 0.6, 1.4))
        norm.bias.copy_(uniform(mean, -0.3, 0.3))

    hooks = [
        module.register_forward_pre_hook(set_norm)
        for module in model.modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm)
    ]
    with torch.no_grad():
        if hooks:
            model(images)
    for hook in hooks:
        hook.remove()


def build(name):
    """The model in eval mode, the same one each time."""
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    if name in TORCHVISION:
        model = getattr(import_torchvision().models, name)(weights=None)
    elif name in TIMM:
        import_torchvision()
        import timm

        model = timm.create_model(name, pretrained=False)
    else:
        model = _text_model(name)
    model.eval()
    if not is_text(name):
        generator = torch.Generator().manual_seed(seed)
        _spread_weights(model, generator)
        _spread_batch_norms(model, _images(4, native_size(name), generator), generator)
    return model


def _images(batch, size, generator):
    """Smooth random images. A network that averages over the image hardly tells one white noise
    from another, and its output would be all bias."""
    coarse = torch.randn(batch, 3, 4, 4, generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(size, size), mode="bilinear")
    shift = 0.3 * torch.randn(batch, 3, 1, 1, generator=generator)
    return smooth + shift + 0.3 * torch.randn(batch, 3, size, size, generator=generator)


def inputs(name, batch, size):
    """Seeded inputs: a dict from the names of forward's arguments, in their order."""
    generator = torch.Generator().manual_seed(batch * 1000 + size)
    if not is_text(name):
        return {"x": _images(batch, size, generator)}
    ids = torch.randint(0, VOCABULARY, (batch, size), generator=generator)
    mask = torch.ones(batch, size, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, size - 2 * row :] = 0
    return {"input_ids": ids, "attention_mask": mask}


class Sample(NamedTuple):
    """The sample inputs of an export."""

    batch: int
    size: int  # the side of the images, or the number of tokens
    dynamic: bool = False  # the archive takes any batch from 1 to 64

    def label(self):
        return f"{'dyn' if self.dynamic else f'b{self.batch}'}_{self.size}"


def export(name, model, sample):
    """The raw program, as torch.export.export leaves it."""
    example = inputs(name, sample.batch, sample.size)
    shapes = None
    if sample.dynamic:
        batch = torch.export.Dim("batch", min=1, max=64)
        shapes = {argument: {0: batch} for argument in example}
    return torch.export.export(model, (), example, dynamic_shapes=shapes)


def decompose(name, program):
    """The core program, after run_decompositions()."""
    attention = contextlib.nullcontext()
    if name == "gpt2":
        # PyTorch's decomposition of its CPU attention gives strides that GPT-2's view() refuses for
        # a batch above 1.
        attention = sdpa_kernel(SDPBackend.MATH)
    with attention:
        return program.run_decompositions()


def expected(name, model, batch, size):
    """PyTorch's own output."""
    with torch.no_grad():
        return model(**inputs(name, batch, size)).numpy()


def save(folder, name, samples, runs):
    """Builds the model once. Writes NAME_raw_LABEL.pt2 and NAME_core_LABEL.pt2 for each sample, and
    NAME_bB_SIZE_in_ARG.npy and NAME_bB_SIZE_out.npy for each (batch, size) in runs."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = build(name)
    for sample in samples:
        program = export(name, model, sample)
        torch.export.save(program, folder / f"{name}_raw_{sample.label()}.pt2")
        torch.export.save(decompose(name, program), folder / f"{name}_core_{sample.label()}.pt2")
    for batch, size in runs:
        stem = f"{name}_b{batch}_{size}"
        for argument, value in inputs(name, batch, size).items():
            np.save(folder / f"{stem}_in_{argument}.npy", value.numpy())
        np.save(folder / f"{stem}_out.npy", expected(name, model, batch, size))


def main():
    parser = argparse.ArgumentParser(
        description="Export models of the zoo, with inputs and PyTorch's outputs."
    )
    parser.add_argument("folder")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    parser.add_argument("--batch", type=int, action="append", help="may be repeated; default: 1")
    parser.add_argument("--small", action="store_true", help="64x64 images, 16 tokens")
    parser.add_argument("--dynamic", action="store_true", help="one archive for any batch")
    options = parser.parse_args()
    batches = options.batch or [1]
    for name in options.models or MODELS:
        size = small_size(name) if options.small else native_size(name)
        exports = [2] if options.dynamic else batches
        samples = [Sample(b, size, options.dynamic) for b in exports]
        save(options.folder, name, samples, [(b, size) for b in batches])
        print(name, flush=True)


if __name__ == "__main__":
    main()
