"""Tensors of the Open Inference Protocol: numbers and texts in JSON, or in bytes behind it."""

import math
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float32
from pydantic import Field

from forecaster.serve.forecasting.encode import to_numbers
from forecaster.serve.http.schemas import MAX_ITEMS, MAX_NAME, Name, RequestModel
from forecaster.serve.problems import Problem

BINARY_SIZE = "binary_data_size"  # parameter of a tensor whose data lies behind the JSON
_LENGTH = struct.Struct("<I")  # before each text
Content = Float32[np.ndarray, "..."] | Sequence[str]


class TensorParameters(RequestModel):
    """Where the data of a tensor lies."""

    binary_data_size: Annotated[int, Field(ge=0)] | None = None


class TextTensor(RequestModel):
    """An input: texts."""

    name: Literal["location", "at"]
    shape: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, max_length=2)
    datatype: Literal["BYTES"]
    parameters: TensorParameters = TensorParameters()
    data: list[Any] | None = Field(default=None, max_length=MAX_ITEMS)


class OutputParameters(RequestModel):
    """How an output is sent."""

    binary_data: bool = False


class RequestedOutput(RequestModel):
    """An output that is asked for."""

    name: Name
    parameters: OutputParameters = OutputParameters()


class InferenceRequest(RequestModel):
    """The inputs, and the outputs that are asked for; without any, all are sent."""

    id: Annotated[str, Field(max_length=MAX_NAME)] | None = None
    parameters: dict[str, Any] = Field(default={})
    inputs: list[TextTensor] = Field(default=[], max_length=2)
    outputs: list[RequestedOutput] = Field(default=[], max_length=MAX_ITEMS)


def read_texts(tensors: Sequence[TextTensor], binary: bytes) -> dict[str, list[str]]:
    """Return the texts of each input by its name.

    Args:
        tensors: the inputs.
        binary: the bytes behind the JSON, those of one tensor after the other.
    """
    texts: dict[str, list[str]] = {}
    for tensor in tensors:
        size = tensor.parameters.binary_data_size
        if tensor.name in texts or (size is None) == (tensor.data is None):
            detail = "give each input once, with data or with a binary_data_size"
            raise _refusal(tensor.name, detail)
        if size is None:
            values = _flatten(tensor.data)
        else:
            values, binary = _unpack(tensor.name, binary[:size], size), binary[size:]
        if not all(isinstance(value, str) and 0 < len(value) <= MAX_NAME for value in values):
            raise _refusal(tensor.name, f"texts of 1 to {MAX_NAME} characters are needed")
        if math.prod(tensor.shape) != len(values):
            raise _refusal(tensor.name, f"shape {tensor.shape} has not {len(values):,} elements")
        texts[tensor.name] = values
    if binary:
        raise _refusal("the body", f"{len(binary):,} bytes belong to no input")
    return texts


def write_tensor(name: str, content: Content, *, binary: bool) -> tuple[dict[str, Any], bytes]:
    """Return the description of an output, with its data in it or beside it."""
    if isinstance(content, np.ndarray):
        described = {"name": name, "datatype": "FP32", "shape": list(content.shape)}
        if not binary:
            return {**described, "data": to_numbers(content.reshape(-1))}, b""
        raw = np.ascontiguousarray(content, dtype="<f4").tobytes()
    else:
        described = {"name": name, "datatype": "BYTES", "shape": [len(content)]}
        if not binary:
            return {**described, "data": list(content)}, b""
        encoded = [text.encode() for text in content]
        raw = b"".join(_LENGTH.pack(len(text)) + text for text in encoded)
    return {**described, "parameters": {BINARY_SIZE: len(raw)}}, raw


def _flatten(data: list[Any] | None) -> list[Any]:
    """Return the elements of a tensor, whose rows may be lists."""
    items = data or []
    return [x for item in items for x in (item if isinstance(item, list) else [item])]


def _unpack(name: str, raw: bytes, size: int) -> list[str]:
    """Return texts, each of which has its length in front."""
    texts: list[str] = []
    place = 0
    try:
        while place < size:
            (length,) = _LENGTH.unpack_from(raw, place)
            place += _LENGTH.size + length
            if place > len(raw) or len(texts) >= MAX_ITEMS:
                raise ValueError("cut short, or too many")
            texts.append(raw[place - length : place].decode())
    except (struct.error, ValueError) as error:
        raise _refusal(
            name, f"not {size:,} bytes of UTF-8 texts, each behind its length"
        ) from error
    return texts


def _refusal(name: str, detail: str) -> Problem:
    return Problem(422, "bad_tensor", f"{name}: {detail}")
