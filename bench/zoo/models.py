"""The models that the parity tests and the benchmarks run, with seeded random weights.

The weights are random, but spread with care: a fresh model's batch norms do nothing, which hides
mistakes in folding them, and many a fresh model's output hardly depends on its input, which hides
everything else.
"""

import contextlib
import importlib.util
import sys
import zlib
from pathlib import Path
from typing import NamedTuple

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
# What the parity tests run.
MODELS = TORCHVISION + TIMM + TRANSFORMERS
# TorchBench's transformers at their published depth, and the tokens that it gives them on CPUs (for
# some a part of the published length); and the sentence encoder all-MiniLM-L6-v2, without its
# pooling.
PUBLISHED = {
    "bert_base": 512,
    "distilbert_base": 512,
    "gpt2_base": 256,
    "albert_base": 512,
    "t5_small": 512,
    "minilm": 128,
}
MODES = ("raw", "core")

NATIVE_SIZE = 224
SMALL_SIZE = 64
NATIVE_TOKENS = 64
SMALL_TOKENS = 16
VOCABULARY = 4000
PUBLISHED_VOCABULARY = 30000  # all of them have a little more
FIXED_SIZE = {"vit_small_patch16_224": 224}  # its position embedding fixes the image
NATIVE_SIZES = {"unet": 256, **FIXED_SIZE, **PUBLISHED}


def is_text(name):
    return name in TRANSFORMERS or name in PUBLISHED


def native_size(name):
    return NATIVE_SIZES.get(name, NATIVE_TOKENS if is_text(name) else NATIVE_SIZE)


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


class TokensModel(nn.Module):
    """The same for token ids alone, which TorchBench gives its models."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids).logits


class SequencesModel(nn.Module):
    """The same for an encoder and a decoder."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, decoder_input_ids):
        return self.model(input_ids=input_ids, decoder_input_ids=decoder_input_ids).logits


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


def _published_model(name):
    """With the configurations that transformers has as defaults, which are those of the published
    models, but for ALBERT's base version and MiniLM, which are written out."""
    import_torchvision()
    import transformers

    if name == "bert_base":
        return TokensModel(transformers.BertForMaskedLM(transformers.BertConfig()))
    if name == "distilbert_base":
        return TokensModel(transformers.DistilBertForMaskedLM(transformers.DistilBertConfig()))
    if name == "gpt2_base":
        return TokensModel(transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)))
    if name == "minilm":
        config = transformers.BertConfig(
            hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12
        )
        return TextModel(transformers.BertModel(config), "last_hidden_state")
    if name == "albert_base":
        config = transformers.AlbertConfig(
            hidden_size=768,
            intermediate_size=3072,
            num_hidden_layers=12,
            num_attention_heads=12,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        return TokensModel(transformers.AlbertForMaskedLM(config))
    config = transformers.T5Config(use_cache=False, decoder_start_token_id=0)
    return SequencesModel(transformers.T5ForConditionalGeneration(config))


class UNet(nn.Module):
    """Ronneberger, Fischer and Brox, U-Net: Convolutional Networks for Biomedical Image
    Segmentation, 2015: five levels, here with padded convolutions and batch norms, as is usual now.
    """

    def __init__(self, channels=64, classes=2):
        super().__init__()
        widths = [channels << level for level in range(5)]
        self.down = nn.ModuleList(
            self.double(before, after) for before, after in zip([3, *widths], widths)
        )
        self.pool = nn.MaxPool2d(2)
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs)
        self.joined = nn.ModuleList(self.double(a, b) for a, b in pairs)
        self.classify = nn.Conv2d(channels, classes, 1)

    @staticmethod
    def double(before, after):
        layers = []
        for width in (before, after):
            layers += [nn.Conv2d(width, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)]
            layers.append(nn.ReLU(inplace=True))
        return nn.Sequential(*layers)

    def forward(self, x):
        levels = []
        for block in self.down:
            x = block(self.pool(x) if levels else x)
            levels.append(x)
        levels.pop()
        for up, joined in zip(self.up, self.joined):
            x = joined(torch.cat([levels.pop(), up(x)], 1))
        return self.classify(x)


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
    elif name == "unet":
        model = UNet()
    elif name in PUBLISHED:
        model = _published_model(name)
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
    vocabulary = PUBLISHED_VOCABULARY if name in PUBLISHED else VOCABULARY
    ids = torch.randint(0, vocabulary, (batch, size), generator=generator)
    if name == "t5_small":
        return {"input_ids": ids, "decoder_input_ids": ids.flip(1)}
    if name in PUBLISHED and name != "minilm":
        return {"input_ids": ids}
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
