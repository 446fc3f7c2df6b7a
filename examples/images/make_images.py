"""Makes images for `tenon batch`: scenes of sky, hills and things, drawn from random numbers.

    make_images.py FOLDER --count 1000        # JPEGs of 500x375, as photographs in data sets are
    make_images.py FOLDER --kinds             # one of every kind of JPEG and PNG file, in odd sizes

Needs numpy and Pillow. The same seed gives the same pixels.
"""

import argparse
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

PNG_GRAY, PNG_RGB, PNG_PALETTE, PNG_GRAY_ALPHA, PNG_RGBA = 0, 2, 3, 4, 6


def texture(random, width, height):
    """Noise whose spectrum falls with the frequency, as it does in photographs: -1 to 1."""
    fx, fy = np.fft.rfftfreq(width)[None, :], np.fft.fftfreq(height)[:, None]
    falling = 1 / np.maximum(np.hypot(fx, fy), 1 / max(width, height))
    phases = np.exp(2j * np.pi * random.random((height, width // 2 + 1)))
    noise = np.fft.irfft2(phases * falling, (height, width))
    return noise / max(np.abs(noise).max(), 1e-9)


def scene(random, width, height):
    """A landscape with a few things in it."""
    far = random.integers(60, 256, 3)
    near = random.integers(0, 200, 3)
    down = np.linspace(0, 1, height)[:, None, None]
    picture = far * (1 - down) + near * down + np.zeros((height, width, 3))
    horizon = height * (0.4 + 0.2 * random.random())
    hills = horizon + 0.15 * height * texture(random, width, 2)[0]
    ground = np.arange(height)[:, None] > hills[None, :]
    picture[ground] = picture[ground] * 0.4 + random.integers(0, 120, 3)
    image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(random.integers(3, 9)):
        x, y = random.integers(0, width), random.integers(0, height)
        size = 1 + int(random.integers(1, 2 + min(width, height) // 3))
        box = [int(x), int(y), int(x) + size, int(y) + int(random.integers(1, 1 + size))]
        shape = [draw.ellipse, draw.rectangle][random.integers(2)]
        shape(box, fill=tuple(int(v) for v in random.integers(0, 256, 3)))
    picture = np.asarray(image.filter(ImageFilter.GaussianBlur(0.7)), dtype=np.float64)
    for channel in range(3):
        picture[..., channel] += 70 * texture(random, width, height)
    return Image.fromarray(picture.clip(0, 255).astype(np.uint8))


def png(path, rows, width, depth, kind, palette=None, interlaced=False, extra=()):
    """Writes a PNG of rows that are bytes already, in any bit depth; Pillow writes few of them."""

    def chunk(name, data):
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, len(rows), depth, kind, 0, 0, int(interlaced))
    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", header)]
    if palette is not None:
        parts.append(chunk(b"PLTE", palette.astype(np.uint8).tobytes()))
    parts += [chunk(name, data) for name, data in extra]
    if interlaced:
        rows = adam7(rows)
    parts.append(chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(row) for row in rows))))
    parts.append(chunk(b"IEND", b""))
    path.write_bytes(b"".join(parts))


def adam7(rows):
    """The rows of the seven passes (PNG specification, 8.2), of pixels [height, width, bytes]."""
    for y, x, down, across in (
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ):
        part = rows[y::down, x::across]
        if part.size:
            yield from (row.tobytes() for row in part)


def packed(values, depth):
    """Rows of values of 1, 2 or 4 bits."""
    bits = (values[..., None] >> np.arange(depth - 1, -1, -1)) & 1
    return [np.packbits(row.reshape(-1).astype(np.uint8)).tobytes() for row in bits]


def wide(pixels, random):
    """16-bit pixels, big-endian, whose upper bytes are these."""
    low = random.integers(0, 256, pixels.shape)
    return (pixels.astype(np.uint16) * 256 + low.astype(np.uint16)).astype(">u2")


def jpeg_kinds(folder, random):
    def save(name, image, **options):
        image.save(folder / f"{name}.jpg", **options)

    save("jpeg_420", scene(random, 501, 333), quality=90, subsampling=2)
    save("jpeg_422", scene(random, 333, 501), quality=85, subsampling=1)
    save("jpeg_444", scene(random, 287, 288), quality=95, subsampling=0)
    save("jpeg_progressive", scene(random, 403, 299), quality=88, progressive=True)
    save("jpeg_optimized", scene(random, 640, 480), quality=75, optimize=True)
    save("jpeg_restarts", scene(random, 419, 311), quality=80, restart_marker_blocks=7)
    save("jpeg_gray", scene(random, 350, 263).convert("L"), quality=90)
    save("jpeg_gray_progressive", scene(random, 263, 350).convert("L"), progressive=True)
    save("jpeg_cmyk", scene(random, 311, 277).convert("CMYK"), quality=92)
    save("jpeg_cmyk_progressive", scene(random, 277, 311).convert("CMYK"), progressive=True)
    save("jpeg_rgb", scene(random, 300, 300), quality=90, keep_rgb=True)
    save("jpeg_small", scene(random, 31, 47), quality=90)
    save("jpeg_tiny", scene(random, 1, 1))
    save("jpeg_thin", scene(random, 3, 700), quality=90)
    save("jpeg_tall", scene(random, 270, 701), quality=90)
    save("jpeg_flat", scene(random, 900, 5), quality=90)
    save("jpeg_as_resized", scene(random, 256, 341), quality=90)
    save("jpeg_large", scene(random, 2047, 1365), quality=85)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turned by 90 degrees
    save("jpeg_turned", scene(random, 500, 375), quality=90, exif=exif)
    ycck(folder / "jpeg_ycck.jpg", scene(random, 288, 352))
    scene(random, 320, 240).save(folder / "jpeg_named_png.png", format="JPEG")


def ycck(path, image):
    """Pillow writes CMYK as it is; with Adobe's marker saying 2 the first three planes are YCC."""
    image.convert("CMYK").save(path, quality=90)
    data = bytearray(path.read_bytes())
    at = data.index(b"Adobe\0")
    data[at + 11] = 2
    path.write_bytes(bytes(data))


def png_kinds(folder, random):
    def pixels(width, height):
        return np.asarray(scene(random, width, height))

    def gray(width, height):
        return pixels(width, height)[..., 1]

    def write(name, rows, *arguments, **options):
        png(folder / f"{name}.png", rows, *arguments, **options)

    def alpha(array):
        opacity = random.integers(0, 256, array.shape[:2] + (1,), dtype=np.uint8)
        return np.concatenate([array, opacity], axis=2)

    scene(random, 501, 333).save(folder / "png_rgb.png")
    write("png_rgba", alpha(pixels(333, 401)), 333, 8, PNG_RGBA)
    write("png_gray", gray(299, 300), 299, 8, PNG_GRAY)
    write("png_gray_alpha", alpha(gray(280, 270)[..., None]), 280, 8, PNG_GRAY_ALPHA)
    for depth in (1, 2, 4):
        values = gray(303, 299) >> (8 - depth)
        write(f"png_gray_{depth}", packed(values, depth), 303, depth, PNG_GRAY)
        palette = random.integers(0, 256, (2**depth, 3))
        write(f"png_palette_{depth}", packed(values, depth), 303, depth, PNG_PALETTE, palette)
    index = gray(331, 287)
    palette = random.integers(0, 256, (256, 3))
    write("png_palette", index, 331, 8, PNG_PALETTE, palette)
    write("png_palette_short", index, 331, 8, PNG_PALETTE, palette[:100])
    clear = [(b"tRNS", bytes(range(100)))]
    write("png_palette_clear", index, 331, 8, PNG_PALETTE, palette, extra=clear)
    write("png_gray_clear", index, 331, 8, PNG_GRAY, extra=[(b"tRNS", b"\0\x40")])
    write("png_rgb_clear", pixels(270, 280), 270, 8, PNG_RGB, extra=[(b"tRNS", bytes(6))])
    write("png_gray_16", wide(gray(290, 310), random), 290, 16, PNG_GRAY)
    dark = random.integers(0, 400, (310, 290)).astype(">u2")
    write("png_gray_16_dark", dark, 290, 16, PNG_GRAY)
    write("png_rgb_16", wide(pixels(311, 290), random), 311, 16, PNG_RGB)
    write("png_rgba_16", wide(alpha(pixels(290, 311)), random), 290, 16, PNG_RGBA)
    both = wide(alpha(gray(260, 290)[..., None]), random)
    write("png_gray_alpha_16", both, 260, 16, PNG_GRAY_ALPHA)
    write("png_interlaced", pixels(301, 303), 301, 8, PNG_RGB, interlaced=True)
    write("png_interlaced_gray_16", wide(gray(303, 301), random)[..., None], 303, 16, PNG_GRAY,
          interlaced=True)
    gamma = [(b"gAMA", struct.pack(">I", 100000)), (b"tEXt", b"Title\0a scene")]
    write("png_gamma", pixels(310, 300), 310, 8, PNG_RGB, extra=gamma)
    write("png_small", pixels(17, 9), 17, 8, PNG_RGB)
    write("png_tiny", gray(1, 1), 1, 8, PNG_GRAY)
    scene(random, 1500, 1001).save(folder / "png_large.png")
    scene(random, 300, 400).save(folder / "png_named_jpg.jpg", format="PNG")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=100, help="how many JPEGs (default 100)")
    parser.add_argument("--size", default="500x375", help="WIDTHxHEIGHT (default 500x375)")
    parser.add_argument("--quality", type=int, default=95, help="of the JPEGs (default 95)")
    parser.add_argument("--kinds", action="store_true", help="one of every kind instead")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(options.seed)
    if options.kinds:
        jpeg_kinds(options.folder, random)
        png_kinds(options.folder, random)
        return
    width, height = map(int, options.size.split("x"))
    digits = len(str(options.count - 1))
    for i in range(options.count):
        path = options.folder / f"scene_{i:0{digits}}.jpg"
        scene(random, width, height).save(path, quality=options.quality)


if __name__ == "__main__":
    main()
