"""Peak memory of the tiled head, measured in a process of its own."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import sys
from pathlib import Path
import torch
from headrace.models.lm_head import head_logprobs

torch.set_num_threads(1)
tokens, vocab, hidden = 1024, 65536, 16
dtype = getattr(torch, sys.argv[1])

def high_water():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))

states = torch.randn(tokens, hidden).to(dtype).requires_grad_()
weight = torch.randn(vocab, hidden).to(dtype).requires_grad_()
target = torch.randint(vocab, (tokens,))
head_logprobs(states[:4].detach().requires_grad_(), weight[:8].detach(), target[:4] % 8).logprob.sum().backward()
Path("/proc/self/clear_refs").write_text("5")
before = high_water()
head_logprobs(states, weight, target).logprob.sum().backward()
gradients = states.grad.numel() * states.element_size() + weight.grad.numel() * weight.element_size()
print(high_water() - before - gradients)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the high-water mark cannot be reset here")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_extra_memory_is_an_eighth_of_one_copy_of_the_logits(dtype):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, dtype], env=environment, check=True, capture_output=True, text=True
    )
    full_copy = 1024 * 65536 * 4
    assert int(done.stdout) <= full_copy / 8
