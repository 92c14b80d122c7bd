"""
Hugging Face Trainer
====================

TRAM around a Hugging Face encoder, trained by the `Trainer`. The encoder is tiny and has random weights, so that
nothing is downloaded; `transformers.AutoModel.from_pretrained(name)` takes its place in earnest. Needs
`pip install "transformers[torch]"`.
"""

# %%
import tempfile

import torch
import transformers
from torch import Tensor, nn

from lupi.data import Batch
from lupi.methods import TRAM
from lupi.nn import Tower

transformers.set_seed(0)


class Encoder(nn.Module):
    """The mean of the last hidden states: a trunk of token ids."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.BertConfig(
            vocab_size=30, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
        )
        self.bert = transformers.BertModel(config)

    def forward(self, x: dict[str, Tensor]) -> Tensor:
        """Return features of tokenized texts."""
        return self.bert(**x).last_hidden_state.mean(1)


class Model(nn.Module):
    """What the Trainer calls: the columns of the data set are the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.method = TRAM(Encoder(), Tower(privileged=5, features=32), nn.Linear(64, 2), nn.Linear(32, 2))

    def forward(self, input_ids: Tensor, privileged: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss of a batch."""
        return {"loss": self.method(Batch.of({"input_ids": input_ids}, privileged, labels))}


# %%
# Texts of eight tokens. A text is positive if it has more tokens above 15 than below; annotators err.
ids = torch.randint(30, (600, 8))
truth = ((ids > 15).sum(1) > 4).long()
annotator = torch.randint(5, (600,))
wrong = torch.rand(600) < torch.tensor([0.0, 0.1, 0.2, 0.4, 0.5])[annotator]
labels = torch.where(wrong, 1 - truth, truth)
a = nn.functional.one_hot(annotator).float()
rows = [{"input_ids": i, "privileged": p, "labels": y} for i, p, y in zip(ids, a, labels, strict=True)]

model = Model()
with tempfile.TemporaryDirectory() as folder:
    arguments = transformers.TrainingArguments(
        output_dir=folder,
        num_train_epochs=8,
        learning_rate=3e-3,
        per_device_train_batch_size=32,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        use_cpu=True,
    )
    transformers.Trainer(model=model, args=arguments, train_dataset=rows).train()

# %%
# What ships is the encoder and the marginal head.
predictor = model.method.predictor().eval()
new = torch.randint(30, (1000, 8))
with torch.no_grad():
    right = predictor({"input_ids": new}).argmax(1) == ((new > 15).sum(1) > 4)
print(f"accuracy on true labels: {right.float().mean():.3f}")
