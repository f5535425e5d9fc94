"""Small tokenizers made on the spot: bytes, with or without a BOS, with or without a chat template."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

BOS, EOS, TURN = 256, 257, 258


@pytest.fixture
def make_folder(tmp_path):
    def make(*, adds_bos=False, adds_eos=False, template=None, config=None):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<s>", "</s>", "<|end|>")])
        if adds_bos or adds_eos:
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{'<s> ' if adds_bos else ''}$A{' </s>' if adds_eos else ''}",
                special_tokens=[("<s>", BOS), ("</s>", EOS)],
            )
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        settings = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, **(config or {})}
        if template is not None:
            settings["chat_template"] = template
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return tmp_path

    return make
