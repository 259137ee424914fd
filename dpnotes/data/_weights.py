"""Weights of a public network, which are data too: a file of the data folder that may
be absent.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from dpnotes.data._dataset import DataDamaged, DataMissing, Published, Source

DIGEST = "397923af"  # the SHA-256 sum of the file begins with it
# of VGG16, as torchvision publishes it
FILE = f"vgg16-{DIGEST}.pth"
URL = f"https://download.pytorch.org/models/{FILE}"


def read(folder: Path) -> Published:
    """Check the file in a folder; see :class:`Source`."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            # half a gigabyte, which need not be in memory
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DataMissing("imagenet", path) from None
    if not found.startswith(DIGEST):
        fault = f"its SHA-256 sum {found[:12]}... does not begin with {DIGEST}"
        raise DataDamaged("imagenet", path, fault)
    return Published(digest=found[:12], class_names=())


def download(folder: Path) -> None:
    """Download the file, 528 MB, into a folder, and check it."""
    from torch.hub import download_url_to_file

    target = str(folder / FILE)
    download_url_to_file(URL, target, hash_prefix=DIGEST, progress=False)


SOURCES: dict[str, Source[Any]] = {"imagenet": Source((FILE,), read, {})}
