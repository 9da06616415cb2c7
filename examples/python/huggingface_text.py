# SPDX-License-Identifier: Apache-2.0
"""A small GPT-2 that learns sentences, with Hugging Face's Trainer. Nothing is downloaded.

    python huggingface_text.py
    daso run --nodes 2 -- python huggingface_text.py
    torchrun --nproc-per-node 2 huggingface_text.py

--out names the run's folder.
"""

import argparse
import itertools

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from daso.huggingface import Trainer, TrainingArguments

LENGTH = 48  # characters of an example
WHO = ("The rank", "A node", "The world", "Every peer", "This step", "The exchange")
DOES = ("waits for", "sends", "averages", "starts", "merges", "forgets")
WHAT = ("the gradients", "its parameters", "a message", "the next epoch", "what is due", "nothing")


def examples(part: int) -> list[dict[str, torch.Tensor]]:
    """Every fourth sentence is for evaluations."""
    sentences = [" ".join(words) + "." for words in itertools.product(WHO, DOES, WHAT)]
    found = []
    for number, sentence in enumerate(sentences):
        if (number % 4 == 0) == (part == 1):
            codes = torch.tensor(list(sentence.ljust(LENGTH).encode()))
            found.append({"input_ids": codes, "labels": codes})
    return found


if __name__ == "__main__":
    words = argparse.ArgumentParser()
    words.add_argument("--out", default="runs/huggingface_text")
    words = words.parse_args()
    torch.manual_seed(1)
    sizes = {"vocab_size": 128, "n_positions": LENGTH, "n_embd": 64, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    args = TrainingArguments(
        output_dir=words.out + "/transformers",
        num_train_epochs=8,
        per_device_train_batch_size=8,
        learning_rate=3e-3,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    flags = {"strategy": "daso", "out": words.out, "progress": True}
    data = {"train_dataset": examples(0), "eval_dataset": examples(1)}
    trainer = Trainer(model=model, args=args, **data, daso=flags)
    trainer.train()
    print(f"rank {args.process_index}: loss {trainer.evaluate()['eval_loss']:.4f}")
