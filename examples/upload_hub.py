"""Upload a model folder to the Hugging Face Hub, and load a model from there. `hf auth login` comes first.

python upload_hub.py model name/of-the-repository
"""

import sys
from typing import Any

from huggingface_hub import HfApi, snapshot_download

import lupi

FILES = ["README.md", "model.json", "encoders.json", "weights.safetensors"]


def upload(folder: str, repository: str, api: HfApi | None = None) -> Any:
    """Upload the files that `lupi.load` needs, and the model card. `lupi train --no-privileged` leaves names out."""
    api = api or HfApi()
    api.create_repo(repository, private=True, exist_ok=True)
    return api.upload_folder(repo_id=repository, folder_path=folder, allow_patterns=FILES)


def download(repository: str) -> Any:
    """Load a model from the Hub. Nothing in it is executed."""
    return lupi.load(snapshot_download(repository, allow_patterns=FILES))


if __name__ == "__main__":
    print(upload(sys.argv[1], sys.argv[2]))
