# SPDX-License-Identifier: Apache-2.0
"""The state of a PyTorch optimizer, as agreements and checkpoints need it."""

from __future__ import annotations

import copy
import json

import torch


class OptimizerState:
    """Lays out what an optimizer remembers for each parameter as the parameters lie themselves.

    A tensor of its state that has the shape of its parameter, like Adam's exp_avg, is a moment: an
    agreement averages it over the nodes. All moments of one name become views of one flat tensor,
    which is then one pass, as for our own optimizers. Numbers and other tensors stay each rank's.

    An optimizer that evaluates the loss by itself, like LBFGS, has no moments. What it remembers
    are steps and the changes of gradients on them: their means belong to no step, and where
    parameters have moved otherwise the last ones are wrong. So it forgets then; nodes that have
    agreed begin anew with equal parameters, and decide alike.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        names: dict[torch.Tensor, str],
        *,
        moments: bool = True,
    ):
        self._optimizer = optimizer
        self._names = names
        self._has_moments = moments
        self._flat: dict[str, torch.Tensor] = {}

    def lay_out(self, spans: list[tuple[str, int]], like: torch.Tensor) -> list[torch.Tensor]:
        """The flat tensors of all moments, by their names; what is not laid out yet is now."""
        if not self._has_moments:
            return []
        offsets = dict(spans)
        with torch.no_grad():
            for parameter, state in self._optimizer.state.items():
                offset = offsets.get(self._names.get(parameter))
                if offset is None:
                    continue
                for key, value in state.items():
                    if is_moment(value, parameter):
                        state[key] = self._place(key, value, parameter, offset, like)
        return [self._flat[key] for key in sorted(self._flat)]

    def _place(self, key, value, parameter, offset, like):
        flat = self._flat.get(key)
        if flat is None:
            flat = self._flat[key] = torch.zeros_like(like, requires_grad=False)
        view = torch.as_strided(flat, parameter.size(), parameter.stride(), offset)
        if value.data_ptr() == view.data_ptr() or value.numel() == 0:
            return value
        return view.copy_(value)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All of it as tensors by name, and the rest as the bytes of a JSON text."""
        kept: dict[str, torch.Tensor] = {}
        numbers: dict[str, dict] = {}
        lists: dict[str, dict] = {}
        for parameter, state in self._optimizer.state.items():
            name = self._names[parameter]
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    kept[f"state/{name}/{key}"] = value.detach().clone()
                elif isinstance(value, list):
                    lists.setdefault(name, {})[key] = self._keep_list(kept, name, key, value)
                elif value is not None:
                    numbers.setdefault(name, {})[key] = value
        groups = [
            {key: value for key, value in group.items() if key != "params" and is_plain(value)}
            for group in self._optimizer.param_groups
        ]
        text = json.dumps({"numbers": numbers, "groups": groups, "lists": lists})
        kept["rest"] = torch.tensor(list(text.encode()), dtype=torch.uint8)
        return kept

    @staticmethod
    def _keep_list(kept, name, key, values) -> list:
        """What JSON keeps of a list; its tensors lie beside, by their places."""
        plain = []
        for place, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                kept[f"state/{name}/{key}/{place}"] = value.detach().clone()
                value = None
            plain.append(value)
        return plain

    def load(self, kept: dict[str, torch.Tensor]) -> None:
        """The way back."""
        rest = json.loads(bytes(kept["rest"].tolist()))
        parameters = {name: parameter for parameter, name in self._names.items()}
        state = self._optimizer.state
        state.clear()
        self._flat.clear()
        for name, lists in rest.get("lists", {}).items():
            state[parameters[name]].update(lists)
        for entry, tensor in kept.items():
            if entry == "rest":
                continue
            _, name, key, *place = entry.split("/", 3)
            parameter = parameters[name]
            on_host = key == "step" and tensor.numel() == 1
            where = tensor.device if on_host else parameter.device
            value = tensor.to(where, copy=True)
            if place:
                state[parameter][key][int(place[0])] = value
                continue
            if is_moment(value, parameter):
                value = torch.empty_like(parameter, requires_grad=False).copy_(value)
            state[parameter][key] = value
        for name, numbers in rest["numbers"].items():
            state[parameters[name]].update(numbers)
        for group, values in zip(self._optimizer.param_groups, rest["groups"], strict=True):
            for key, value in values.items():
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value

    def copy(self) -> dict:
        """What it remembers, to be put back. What its lists hold never changes."""
        return {
            parameter: {key: copy_of(value) for key, value in state.items()}
            for parameter, state in self._optimizer.state.items()
        }

    def groups(self) -> list[dict]:
        """Learning rates and the like, as they are now."""
        return [
            {key: copy.deepcopy(value) for key, value in group.items() if key != "params"}
            for group in self._optimizer.param_groups
        ]

    def put_back_groups(self, groups: list[dict]) -> None:
        for group, values in zip(self._optimizer.param_groups, groups, strict=True):
            group.update(values)

    def put_back(self, state: dict) -> None:
        self._optimizer.state.clear()
        self._optimizer.state.update(state)
        self._flat.clear()

    def forget(self) -> None:
        """The optimizer goes on as if it began."""
        self._optimizer.state.clear()

    def set_steps(self, steps: int) -> None:
        """Nodes that skipped steps by themselves count alike again."""
        for state in self._optimizer.state.values():
            count = state.get("step")
            if isinstance(count, torch.Tensor):
                count.fill_(steps)
            elif isinstance(count, int):
                state["step"] = steps


def is_moment(value: object, parameter: torch.Tensor) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.dtype == torch.float32
        and value.shape == parameter.shape
        and value.dim() > 0
    )


def copy_of(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.clone()
    return list(value) if isinstance(value, list) else value


def is_plain(value: object) -> bool:
    """Whether JSON keeps it as it is."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(one) for one in value)
    return value is None or isinstance(value, (bool, int, float, str))
