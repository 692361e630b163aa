"""``python -m benchmarks.fedavg.plain DATA_ROOT ROUNDS``: two processes and a queue; prints JSON.

What somebody writes who needs no framework: images as ready tensors in shared memory, an eager
model and SGD in each process, clients taken from a queue, the mean of what comes back.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch import multiprocessing as processes
from torch.nn import functional as F

from benchmarks.baseline.convolutional import Conv
from benchmarks.fedavg.job import (
    BATCH,
    CLIENTS,
    COHORT,
    EPOCHS,
    LR,
    RATE,
    STATISTICS_BATCH,
    TEST_BATCH,
)
from heterofl_ray.data.store import open_dataset

WORKERS = 2
State = dict[str, Tensor]


def ready(images: Tensor) -> Tensor:
    shared: Tensor = ((images.float() / 255 - 0.1307) / 0.3081).share_memory_()
    return shared


def work(tasks: Any, results: Any, data: dict[str, Tensor], parts: list[Tensor]) -> None:
    torch.set_num_threads(1)
    while (task := tasks.get()) is not None:
        kind, state, what = task
        started = time.time()
        if kind == "train":
            outcome: Any = train(state, data, parts[what])
        elif kind == "statistics":
            outcome = statistics(state, data["images"][what])
        else:
            outcome = test(state, data, what)
        results.put((started, outcome))


def train(state: State, data: dict[str, Tensor], mine: Tensor) -> State:
    model = Conv(RATE, 1.0, track=False)
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=0.9, weight_decay=5e-4)
    model.train()
    for _ in range(EPOCHS):
        for batch in mine[torch.randperm(len(mine))].split(BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data["images"][batch]), data["labels"][batch])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return dict(model.state_dict())


@torch.no_grad()
def statistics(state: State, images: Tensor) -> State:
    model = Conv(RATE, 1.0, track=True)
    model.load_state_dict(state, strict=False)
    model.train()
    for batch in images.split(STATISTICS_BATCH):
        model(batch)
    return dict(model.state_dict())


@torch.no_grad()
def test(state: State, data: dict[str, Tensor], part: slice) -> State:
    model = Conv(RATE, 1.0, track=True)
    model.load_state_dict(state)
    model.eval()
    batches = zip(
        data["test_images"][part].split(TEST_BATCH),
        data["test_labels"][part].split(TEST_BATCH),
        strict=True,
    )
    right = sum((model(images).argmax(1) == labels).sum() for images, labels in batches)
    return {"right": torch.as_tensor(right)}


def mean(states: list[State]) -> State:
    return {name: sum(state[name] for state in states) / len(states) for name in states[0]}  # type: ignore[misc]


def halves(length: int) -> list[slice]:
    return [slice(0, length // 2), slice(length // 2, length)]


def main(root: Path, rounds: int) -> None:
    dataset = open_dataset(root, "mnist")
    data = {
        "images": ready(dataset.train.images),
        "labels": dataset.train.labels.clone().share_memory_(),
        "test_images": ready(dataset.test.images),
        "test_labels": dataset.test.labels.clone().share_memory_(),
    }
    random = np.random.default_rng(0)
    examples = torch.from_numpy(random.permutation(len(data["images"])))
    parts = [part.contiguous() for part in examples.chunk(CLIENTS)]
    context = processes.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    workers = [
        context.Process(target=work, args=(tasks, results, data, parts)) for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.start()

    def done(kind: str, state: State, whats: list[Any]) -> list[tuple[float, State]]:
        for what in whats:
            tasks.put((kind, state, what))
        return [results.get() for _ in whats]

    state = {name: tensor.detach() for name, tensor in Conv(RATE, 1.0, False).named_parameters()}
    first_client, taken = 0.0, []
    for t in range(rounds):
        started = time.perf_counter()
        size = COHORT if t else WORKERS  # the first one warms up, a client in each process
        cohort = random.choice(CLIENTS, size, replace=False).tolist()
        trained = done("train", state, cohort)
        state = mean([outcome for _, outcome in trained])
        gathered = done("statistics", state, halves(len(data["images"])))
        tested = mean([outcome for _, outcome in gathered])
        done("test", tested, halves(len(data["test_images"])))
        taken.append(time.perf_counter() - started)
        first_client = first_client or min(when for when, _ in trained)
    for _ in workers:
        tasks.put(None)
    for worker in workers:
        worker.join()
    print(json.dumps({"first_client": first_client, "rounds": taken}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
