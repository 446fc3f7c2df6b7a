"""Archives that hold operators which a plugin registers."""

import numpy as np
import torch

library = torch.library.Library("example", "DEF")
library.define("quick_gelu(Tensor self, float beta=1.702) -> Tensor")


def quick_gelu(x, beta=1.702):
    return x * torch.sigmoid(beta * x)


library.impl("quick_gelu", quick_gelu, "CPU")
torch.library.register_fake("example::quick_gelu", lambda x, beta=1.702: torch.empty_like(x), lib=library)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, x):
        x = torch.ops.example.quick_gelu(self.linear(x))
        return torch.ops.example.quick_gelu(x.t(), 0.5)


def test_archive_with_registered_operators(tenon, tmp_path):
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 16)
    batch = torch.export.Dim("batch", min=2, max=64)
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: batch},)), tmp_path / "net.pt2")
    result = tenon.start("run", tmp_path / "net.pt2", "--random", "1")
    assert result.returncode == 1
    assert "example.quick_gelu" in result.stderr
    plugin = tenon.command.parents[2] / "examples" / "passes" / "quick_gelu.so"
    for backend in ["auto", "reference"]:
        for rows in [5, 2]:
            x = torch.randn(rows, 16)
            got = tenon.run(tmp_path / "net.pt2", {"x": x.numpy()}, "--pass-plugin", plugin, "--backend", backend)
            expected = net(x).detach().numpy()
            np.testing.assert_allclose(next(iter(got.values())), expected, rtol=1e-5, atol=1e-6)
