"""Trains a small residual network on scikit-learn's 8x8 digits and exports it for Tenon.

    python train.py

Needs torch, numpy and scikit-learn. Writes digits.pt2 and the held-out images, labels and
PyTorch's logits beside itself.
The seed is fixed: the same versions on the same kind of CPU give the same network.
"""

import sysconfig
import zipfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = Path(__file__).resolve().parent
SEED = 20
EPOCHS = 30
BATCH = 64
LARGEST_BATCH = 1024
WANTED_ACCURACY = 0.97


class Residual(nn.Module):
    """relu(f(x) + shortcut(x)), f two 3x3 convolutions with batch norm."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Digits(nn.Module):
    """(N, 1, 8, 8) pixels in 0..1 -> (N, 10) logits."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        self.blocks = nn.Sequential(Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, 10)

    def forward(self, images):
        features = self.pool(self.blocks(self.stem(images)))
        return {"logits": self.classifier(features.flatten(1))}


def load():
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    return train_test_split(images, labels, test_size=0.2, random_state=SEED, stratify=labels)


def train(model, images, labels):
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    steps = EPOCHS * -(-len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        model.train()
        for rows in torch.randperm(len(images)).split(BATCH):
            loss = nn.functional.cross_entropy(model(images[rows])["logits"], labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def machine_paths():
    """The folders that PyTorch writes into the stack traces of an exported program."""
    libraries = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")}
    return [str(HERE), *sorted(libraries, key=len, reverse=True)]


def export(model, path):
    batch = torch.export.Dim("batch", min=1, max=LARGEST_BATCH)
    program = torch.export.export(
        model.eval(), (torch.zeros(2, 1, 8, 8),), dynamic_shapes={"images": {0: batch}}
    )
    # Stack traces say which line made a node; where the file lay on this machine is nobody's
    # business.
    for node in program.graph.nodes:
        for folder in machine_paths():
            if trace := node.meta.get("stack_trace"):
                node.meta["stack_trace"] = trace.replace(folder + "/", "")
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            for folder in machine_paths():
                if folder.encode() in archive.read(entry):
                    raise SystemExit(f"{path}: {entry} names the folder {folder}")


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)  # the order of sums, and so the weights, would depend on it
    train_images, images, train_labels, labels = load()
    model = Digits()
    train(model, train_images, train_labels)

    model.eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(images))["logits"].numpy()
    accuracy = (logits.argmax(1) == labels).mean()
    print(f"{len(labels)} held-out images, accuracy {100 * accuracy:.2f}%")
    if accuracy <= WANTED_ACCURACY:
        raise SystemExit(f"accuracy is not above {100 * WANTED_ACCURACY:.0f}%: nothing written")

    export(model, HERE / "digits.pt2")
    np.save(HERE / "heldout_images.npy", images)
    np.save(HERE / "heldout_labels.npy", labels)
    np.save(HERE / "heldout_logits.npy", logits)


if __name__ == "__main__":
    main()
