"""Models of many kinds, with random seeded weights, and small where their makers let them be.

The tables hold what the makers are given. Weights are spread like those of bench/zoo/models.py.
"""

import zlib

import torch
from bench.zoo import models as zoo
from torch import nn

# timm: the side of the images, and settings.
TIMM = {
    "coatnet_pico_rw_224": (64, dict(img_size=64)),
    "maxvit_rmlp_pico_rw_256": (64, dict(img_size=64)),
    "mobilevit_xxs": (64, {}),
    "efficientformer_l1": (224, {}),
    "efficientformerv2_s0": (224, {}),
    "fastvit_t8": (64, {}),
    "edgenext_xx_small": (64, {}),
    "mixer_s32_224": (64, dict(img_size=64)),
    "resmlp_12_224": (64, dict(img_size=64)),
    "gmlp_ti16_224": (64, dict(img_size=64)),
    "poolformer_s12": (64, {}),
    "swin_tiny_patch4_window7_224": (56, dict(img_size=56, window_size=7)),
    "swinv2_tiny_window8_256": (64, dict(img_size=64)),
    "hiera_tiny_224": (64, dict(img_size=64)),
    "xcit_nano_12_p16_224": (64, dict(img_size=64)),
    "cait_xxs24_224": (64, dict(img_size=64, depth=4)),
    "beit_base_patch16_224": (64, dict(img_size=64, depth=2)),
    "eva02_tiny_patch14_224": (56, dict(img_size=56, depth=4)),
    "convnextv2_atto": (64, {}),
    "ghostnet_050": (64, {}),
    "tf_efficientnet_lite0": (64, {}),
}

# torchvision: the module, the shape of an image or a film, and settings.
TORCHVISION = {
    "deeplabv3_mobilenet_v3_large": ("segmentation", (3, 64, 64), dict(weights_backbone=None)),
    "lraspp_mobilenet_v3_large": ("segmentation", (3, 64, 64), dict(weights_backbone=None)),
    "r3d_18": ("video", (3, 4, 32, 32), {}),
}

SMALL = dict(
    hidden_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=128,
    vocab_size=200,
)
DECODER = dict(
    SMALL,
    num_key_value_heads=2,
    max_position_embeddings=64,
    use_cache=False,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=0,
)
BART = dict(
    d_model=64,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    vocab_size=200,
    max_position_embeddings=64,
    use_cache=False,
)
TOKENS = 16

# transformers, of token ids: the config's name, the model's, settings; with a mask, without one, or
# an encoder with a decoder.
TEXT = {
    "bloom": (
        "Bloom",
        "BloomForCausalLM",
        dict(hidden_size=64, n_layer=2, n_head=4, vocab_size=200, use_cache=False),
        True,
    ),
    "deberta_v2": (
        "DebertaV2",
        "DebertaV2Model",
        dict(
            SMALL,
            relative_attention=True,
            pos_att_type=["c2p", "p2c"],
            max_position_embeddings=64,
            position_buckets=8,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            conv_kernel_size=3,
        ),
        True,
    ),
    "electra": ("Electra", "ElectraModel", dict(SMALL, embedding_size=32), True),
    "gemma3": (
        "Gemma3Text",
        "Gemma3ForCausalLM",
        dict(DECODER, head_dim=16, sliding_window=8),
        True,
    ),
    "gpt_neox": ("GPTNeoX", "GPTNeoXForCausalLM", dict(SMALL, use_cache=False), True),
    "mamba2": (
        "Mamba2",
        "Mamba2ForCausalLM",
        dict(
            hidden_size=64,
            num_heads=8,
            head_dim=16,
            num_hidden_layers=2,
            vocab_size=200,
            n_groups=1,
            chunk_size=8,
            use_cache=False,
        ),
        False,
    ),
    "mistral": ("Mistral", "MistralForCausalLM", dict(DECODER, sliding_window=8), True),
    "modernbert": (
        "ModernBert",
        "ModernBertModel",
        dict(
            SMALL,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            local_attention=8,
            max_position_embeddings=64,
            reference_compile=False,
        ),
        True,
    ),
    "mpnet": ("MPNet", "MPNetModel", SMALL, True),
    "phi": ("Phi", "PhiForCausalLM", DECODER, True),
    "qwen2": ("Qwen2", "Qwen2ForCausalLM", DECODER, True),
    "xlnet": (
        "XLNet",
        "XLNetModel",
        dict(d_model=64, n_layer=2, n_head=4, d_inner=128, vocab_size=200, use_mems_eval=False),
        True,
    ),
    "bart": ("Bart", "BartForConditionalGeneration", BART, "pair"),
    "marian": (
        "Marian",
        "MarianMTModel",
        dict(BART, decoder_start_token_id=0, pad_token_id=0, eos_token_id=2),
        "pair",
    ),
}


def _vision(side=64):
    return dict(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=side,
        patch_size=16,
    )


# transformers, of images and sound: the same, and each input's shape, or the number of token ids.
OTHERS = {
    "whisper_encoder": (
        "Whisper",
        "models.whisper.modeling_whisper.WhisperEncoder",
        dict(
            d_model=64,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=128,
            max_source_positions=32,
        ),
        {"input_features": (80, 64)},
    ),
    "whisper": (
        "Whisper",
        "WhisperForConditionalGeneration",
        dict(
            d_model=64,
            encoder_layers=2,
            encoder_attention_heads=4,
            encoder_ffn_dim=128,
            decoder_layers=2,
            decoder_attention_heads=4,
            decoder_ffn_dim=128,
            max_source_positions=32,
            vocab_size=200,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            use_cache=False,
        ),
        {"input_features": (80, 64), "decoder_input_ids": 8},
    ),
    "wav2vec2": (
        "Wav2Vec2",
        "Wav2Vec2Model",
        dict(
            SMALL, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4
        ),
        {"input_values": (6400,)},
    ),
    "hubert": (
        "Hubert",
        "HubertModel",
        dict(
            SMALL, conv_dim=(32,) * 7, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4
        ),
        {"input_values": (6400,)},
    ),
    "audio_spectrogram": (
        "AST",
        "ASTModel",
        dict(_vision(), max_length=64, num_mel_bins=64),
        {"input_values": (64, 64)},
    ),
    "segformer": (
        "Segformer",
        "SegformerForSemanticSegmentation",
        dict(
            depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], decoder_hidden_size=32, num_labels=7
        ),
        {"pixel_values": (3, 64, 64)},
    ),
    "mask2former": (
        "Mask2Former",
        "Mask2FormerForUniversalSegmentation",
        dict(
            feature_size=32,
            mask_feature_size=32,
            hidden_dim=32,
            encoder_feedforward_dim=64,
            encoder_layers=1,
            decoder_layers=2,
            num_attention_heads=4,
            dim_feedforward=64,
            num_queries=9,
        ),
        {"pixel_values": (3, 64, 64)},
    ),
    "yolos": (
        "Yolos",
        "YolosForObjectDetection",
        dict(_vision(), image_size=[64, 64], num_detection_tokens=10),
        {"pixel_values": (3, 64, 64)},
    ),
    "detr": (
        "Detr",
        "DetrForObjectDetection",
        dict(
            use_timm_backbone=True,
            use_pretrained_backbone=False,
            backbone="resnet18",
            encoder_layers=1,
            decoder_layers=1,
            d_model=64,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            num_queries=10,
        ),
        {"pixel_values": (3, 64, 64)},
    ),
    "vitdet": (
        "VitDet",
        "VitDetModel",
        dict(
            _vision(),
            pretrain_image_size=64,
            window_size=2,
            window_block_indices=[0],
            use_relative_position_embeddings=True,
            residual_block_indices=[1],
            mlp_ratio=2,
        ),
        {"pixel_values": (3, 64, 64)},
    ),
    "swin2sr": (
        "Swin2SR",
        "Swin2SRForImageSuperResolution",
        dict(
            image_size=16,
            embed_dim=32,
            depths=[2],
            num_heads=[4],
            window_size=4,
            upscale=2,
            upsampler="pixelshuffle",
        ),
        {"pixel_values": (3, 16, 16)},
    ),
    "perceiver": (
        "Perceiver",
        "PerceiverModel",
        dict(
            num_latents=8,
            d_latents=32,
            d_model=48,
            num_blocks=1,
            num_self_attends_per_block=2,
            num_self_attention_heads=4,
            num_cross_attention_heads=4,
        ),
        {"inputs": (24, 48)},
    ),
    "patchtst": (
        "PatchTST",
        "PatchTSTModel",
        dict(
            num_input_channels=3,
            context_length=32,
            patch_length=8,
            patch_stride=4,
            d_model=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=64,
        ),
        {"past_values": (32, 3)},
    ),
    "clip": (
        "CLIP",
        "CLIPModel",
        dict(
            text_config=dict(SMALL, max_position_embeddings=32),
            vision_config=_vision(),
            projection_dim=32,
        ),
        {"input_ids": 16, "pixel_values": (3, 64, 64)},
    ),
    "hifigan": (
        "SpeechT5HifiGan",
        "SpeechT5HifiGan",
        dict(upsample_initial_channel=32),
        {"spectrogram": (16, 80)},
    ),
}

MODELS = (*TIMM, *TORCHVISION, *TEXT, *OTHERS)


class Plain(nn.Module):
    """A model of positional inputs that gives all its float tensors, whatever its own form is."""

    def __init__(self, model, names):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, first, second=None):
        if self.names == ["x"]:
            result = self.model(first)
        else:
            result = self.model(**dict(zip(self.names, (first, second))))
        found, open_items = [], [result]
        while open_items:
            item = open_items.pop()
            if isinstance(item, torch.Tensor):
                if item.is_floating_point() and all(item is not other for other in found):
                    found.append(item)
            elif isinstance(item, (tuple, list)):
                open_items += item[::-1]
            elif hasattr(item, "values"):
                open_items += list(item.values())[::-1]
        return tuple(found)


class _Packed(nn.Module):
    """All inputs as one argument."""

    def __init__(self, plain):
        super().__init__()
        self.plain = plain

    def forward(self, given):
        return self.plain(*given)


def _shapes(name):
    """The inputs: their shapes without the batch, a number of token ids, or "mask"."""
    if name in TIMM:
        side = TIMM[name][0]
        return {"x": (3, side, side)}
    if name in TORCHVISION:
        return {"x": TORCHVISION[name][1]}
    if name in OTHERS:
        return OTHERS[name][3]
    second = {"pair": {"decoder_input_ids": TOKENS // 2}, True: {"attention_mask": "mask"}}
    return {"input_ids": TOKENS, **second.get(TEXT[name][3], {})}


def _mask(batch):
    """Each row has two tokens fewer than the one above."""
    mask = torch.ones(batch, TOKENS, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, TOKENS - 2 * row :] = 0
    return mask


def inputs(name, batch):
    """Seeded inputs, in their order."""
    generator = torch.Generator().manual_seed(batch)
    given = []
    for shape in _shapes(name).values():
        if shape == "mask":
            given.append(_mask(batch))
        elif isinstance(shape, int):
            given.append(torch.randint(3, 200, (batch, shape), generator=generator))
        elif len(shape) == 3 and shape[0] == 3:
            given.append(zoo._images(batch, shape[1], generator))
        else:
            given.append(torch.randn(batch, *shape, generator=generator))
    return tuple(given)


def _make(name):
    torchvision = zoo.import_torchvision()
    if name in TIMM:
        import timm

        return timm.create_model(name, pretrained=False, **TIMM[name][1])
    if name in TORCHVISION:
        module, _, settings = TORCHVISION[name]
        package = getattr(torchvision.models, module) if module else torchvision.models
        return getattr(package, name)(weights=None, **settings)
    import transformers

    config, path, settings = (TEXT.get(name) or OTHERS[name])[:3]
    found = transformers
    for part in path.split("."):
        found = getattr(found, part)
    return found(getattr(transformers, config + "Config")(**settings))


def _spread_plain(model, generator):
    """Spreads what a fresh model has as one number only: scales of 1 or 1e-5, biases and tables of
    zeros, which would hide what reads them."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point() or not parameter.numel():
                continue
            if parameter.min() != parameter.max():
                continue
            if parameter.max() == 0:
                parameter.normal_(0, 0.1, generator=generator)
            else:
                parameter.uniform_(0.6, 1.4, generator=generator)


def build(name):
    """The model in eval mode, the same one each time."""
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = _make(name).eval()
    _spread_plain(model, generator)
    if name in TIMM or name in TORCHVISION:
        zoo._spread_weights(model, generator)
    plain = Plain(model, list(_shapes(name))).eval()
    zoo._spread_batch_norms(_Packed(plain), inputs(name, 4), generator)
    return plain


def export(name, model, batch, dynamic=False):
    """The raw program; `dynamic`: it takes any batch from 1 to 64."""
    given = inputs(name, batch)
    shapes = None
    if dynamic:
        size = torch.export.Dim("batch", min=1, max=64)
        shapes = tuple({0: size} for _ in given)
    return torch.export.export(model, given, dynamic_shapes=shapes)
