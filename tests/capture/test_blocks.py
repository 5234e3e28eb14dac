"""Finding a model's blocks, naming them oneself, and what is said where they cannot be watched."""

import pytest
import torch
import transformers
from torch import Tensor, nn

from anisoscope import Look, ModelError
from anisoscope.capture.blocks import find_blocks
from capture.models import LENGTH, SHAPES, VOCAB, Shape, Stack, lab, windows
from capture.plain import largest_gap, plain, seen


def names(model: nn.Module, layers: object = None) -> list[str]:
    return [name for name, _ in find_blocks(model, layers)]  # type: ignore[arg-type]


def refusal(call) -> str:
    with pytest.raises(ModelError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_blocks_of_each_shape_are_found(shape: Shape) -> None:
    model = shape.model()
    assert names(model) == shape.blocks
    assert [block for _, block in find_blocks(model)] == [model.get_submodule(name) for name in shape.blocks]


def test_the_stack_with_the_most_parameters_is_taken() -> None:
    model = Stack()
    model.adapters = nn.ModuleList(nn.Linear(3, 3) for _ in range(5))
    model.mixed = nn.ModuleList([nn.Linear(500, 500), nn.Identity()])  # not alike
    model.empty = nn.ModuleList()
    assert names(model) == ["blocks.0", "blocks.1", "blocks.2"]


def test_stacks_inside_the_blocks_are_no_rivals() -> None:
    """Experts hold nearly all of a block's parameters; a rival outside is seen behind them."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(20, 20) for _ in range(4))

    model = nn.ModuleDict({"blocks": nn.ModuleList([Experts()])})
    assert names(model) == ["blocks.0"]
    model["others"] = nn.ModuleList(nn.Linear(20, 20) for _ in range(3))
    assert refusal(lambda: names(model)) == (
        "ModuleDict has two stacks of blocks, 'blocks' and 'others': choose one with layers='blocks'"
    )


@pytest.fixture
def t5() -> nn.Module:
    config = transformers.T5Config(
        vocab_size=VOCAB, d_model=16, d_kv=8, d_ff=20, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


def test_two_stacks_are_refused_by_name(t5: nn.Module) -> None:
    assert refusal(lambda: Look.from_model(t5, windows())) == (
        "T5ForConditionalGeneration has two stacks of blocks, 'decoder.block' and 'encoder.block': choose one with "
        "layers='decoder.block'"
    )


def test_one_of_two_stacks_can_be_chosen(t5: nn.Module) -> None:
    def objective(model: nn.Module, ids: Tensor) -> tuple[Tensor, Tensor]:
        return model(input_ids=ids, decoder_input_ids=ids).logits, ids.roll(-1, 1)

    for layers in ("encoder.block", ["decoder.block"]):
        look = Look.from_model(t5, windows(objective), layers=layers)
        stack = layers if isinstance(layers, str) else layers[0]
        assert [site.layer for site in look.sites] == ["embedding", f"{stack}.0", f"{stack}.1"]


@pytest.mark.parametrize("layers", ["blocks", ["blocks"], ("blocks.0", "blocks.1", "blocks.2")])
def test_layers_are_named_by_their_list_or_one_by_one(layers) -> None:
    model, window = lab(), windows()
    look = Look.from_model(model, window, layers=layers)
    assert [(site.layer, site.depth, site.site) for site in look.sites] == [
        ("embedding", 0, "embedding"), ("blocks.0", 1, "block"), ("blocks.1", 2, "block"), ("blocks.2", 3, "block"),
    ]  # fmt: skip


class Chain(Stack):
    """Its blocks lie in an nn.Sequential, and no nn.ModuleList is there."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*self.blocks)

    def run(self, h: Tensor) -> Tensor:
        return self.blocks(h)


def test_an_nn_sequential_is_found_where_there_is_no_list() -> None:
    assert names(Chain()) == ["blocks.0", "blocks.1", "blocks.2"]
    assert [site.layer for site in Look.from_model(Chain(), windows()).sites][1:] == names(Chain())


def test_a_list_comes_before_an_nn_sequential() -> None:
    model = Chain()
    model.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    assert names(model) == ["layers.0", "layers.1"]


def test_two_of_nn_sequential_are_refused_by_name() -> None:
    model = Chain()
    model.small = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2)))
    assert refusal(lambda: names(model)) == (
        "Chain has two stacks of blocks, 'blocks' and 'small': choose one with layers='blocks'"
    )


@pytest.mark.parametrize(
    "head", [nn.Sequential(nn.Linear(6, 6), nn.Linear(6, VOCAB)), nn.Sequential(nn.Sequential(nn.Linear(6, VOCAB)))]
)
def test_linear_maps_in_a_row_and_a_single_module_are_no_stack_of_blocks(head: nn.Module) -> None:
    model = Flat()
    model.head = head
    assert refusal(lambda: names(model)).startswith("no blocks found in Flat: ")


def test_an_nn_sequential_by_its_path_is_its_members_and_in_a_list_itself() -> None:
    assert names(Chain(), "blocks") == ["blocks.0", "blocks.1", "blocks.2"]
    assert names(Chain(), ["blocks"]) == ["blocks"]
    assert names(Chain(), "blocks.1") == ["blocks.1.0", "blocks.1.1"]
    assert names(Chain(), "blocks.1.1") == ["blocks.1.1"]
    model = nn.ModuleDict({"one": nn.Sequential(nn.Linear(2, 2))})
    assert names(model, "one") == ["one"]


def test_any_modules_can_be_named() -> None:
    model, window = lab(), windows()
    layers = ["blocks.0.mlp", "blocks.2", "norm"]
    wanted = plain(model, layers, window.inputs("test"), window.targets("test"))
    assert largest_gap(seen(Look.from_model(model, window, layers=layers)), wanted) < 1e-6


def test_a_layer_that_does_not_exist_is_refused_with_what_there_is() -> None:
    listing = (
        "tokens (Embedding), blocks (ModuleList), blocks.0 (Sequential), blocks.0.0 (Tanh), blocks.0.1 (Linear), "
        "blocks.1 (Sequential), blocks.1.0 (Tanh), blocks.1.1 (Linear), blocks.2 (Sequential), blocks.2.0 (Tanh), "
        "blocks.2.1 (Linear), head (Linear)"
    )
    assert refusal(lambda: names(Stack(), ["layer.0", "blocks.1", "top"])) == (
        f"the model has no module 'layer.0', 'top'; it has {listing}"
    )
    assert refusal(lambda: names(Stack(), [])) == (
        f"layers is empty; the model has {listing}: name the blocks, first to last"
    )


def test_a_long_listing_is_cut() -> None:
    message = refusal(lambda: names(Stack(num_blocks=9), "stack"))
    assert message.endswith("blocks.2.1 (Linear), blocks.3 (Sequential) and 18 more")


class Flat(nn.Module):
    """Its layers lie in no list."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.first, self.second = nn.Embedding(VOCAB, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.head = nn.Linear(6, VOCAB)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.second(self.first(self.tokens(ids)).tanh()).tanh())


def test_a_model_without_blocks_says_what_it_has_and_can_be_watched_by_name() -> None:
    assert refusal(lambda: Look.from_model(Flat(), windows())) == (
        "no blocks found in Flat: it holds no nn.ModuleList of alike modules. It has tokens (Embedding), first "
        "(Linear), second (Linear), head (Linear): name the blocks with layers=[...], first to last"
    )
    look = Look.from_model(Flat(), windows(), layers=["first", "second"])
    assert [site.layer for site in look.sites] == ["embedding", "first", "second"]


def test_a_model_without_anything() -> None:
    assert refusal(lambda: Look.from_model(nn.Identity(), windows())) == (
        "no blocks found in Identity: it holds no nn.ModuleList of alike modules. It has no submodules: name the "
        "blocks with layers=[...], first to last"
    )


class Silent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Tanh(), nn.Tanh()])

    def forward(self, ids: Tensor) -> Tensor:
        return ids


def test_a_model_without_parameters_is_refused() -> None:
    assert refusal(lambda: Look.from_model(Silent(), windows(), layers="blocks")) == (
        "Silent has no parameters: nothing is learned, nothing can be watched"
    )


def returning(answer) -> nn.Module:
    class Returning(Stack):
        def forward(self, ids: Tensor) -> object:
            return answer(self, super().forward(ids))

    return Returning()


WANTED = (
    "wanted logits of shape (batch, length, vocabulary) = (1, 10, V): give objective=f(model, ids) -> (logits, targets)"
)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda _, logits: logits.sum(), "a tensor of shape () and type torch.float32"),
        (lambda _, logits: logits[:, -1], "a tensor of shape (1, 61) and type torch.float32"),
        (lambda _, logits: logits[:, 1:], "a tensor of shape (1, 9, 61) and type torch.float32"),
        (lambda _, logits: {"scores": logits}, "a NoneType"),
        (lambda _, logits: [], "a list of ()"),
        (lambda _, logits: None, "a NoneType"),
    ],
)
def test_a_model_whose_output_holds_no_logits_is_refused(answer, told: str) -> None:
    assert refusal(lambda: Look.from_model(returning(answer), windows())) == f"the model returned {told}; {WANTED}"


@pytest.mark.parametrize(
    "answer",
    [
        lambda _, logits: (logits, "cache"),
        lambda _, logits: [logits],
        lambda _, logits: {"logits": logits},
        lambda _, logits: transformers.modeling_outputs.CausalLMOutput(loss=logits.sum(), logits=logits),
    ],
)
def test_logits_are_found_where_models_put_them(answer) -> None:
    model = returning(answer)
    bare = Stack()
    bare.load_state_dict(model.state_dict())
    got, wanted = (seen(Look.from_model(one, windows())) for one in (model, bare))
    assert largest_gap(got, wanted) == 0


def objective_of(answer):
    return windows(lambda model, ids: answer(model(ids), ids))


def floats(*shape: int) -> str:
    return f"a tensor of shape {shape} and type torch.float32"


def whole(*shape: int) -> str:
    return f"a tensor of shape {shape} and type torch.int64"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda logits, ids: (logits[:, :-1], ids[:, 1:]), f"a tuple of ({floats(1, 9, 61)}, {whole(1, 9)})"),
        (lambda logits, ids: (logits[0], ids[0]), f"a tuple of ({floats(10, 61)}, {whole(10)})"),
        (lambda logits, ids: (logits, None), f"a tuple of ({floats(1, 10, 61)}, a NoneType)"),
        (lambda logits, ids: (logits, ids, 0), f"a tuple of ({floats(1, 10, 61)}, {whole(1, 10)}, a int)"),
        (lambda logits, ids: logits.mean(-1), floats(1, 10)),
        (lambda logits, ids: 3.0, "a float"),
    ],
)
def test_an_objective_that_gives_something_else_is_refused(answer, told: str) -> None:
    assert refusal(lambda: Look.from_model(lab(), objective_of(answer))) == (
        f"the objective returned {told}; wanted (logits, targets) of shapes (1, 10, 'V') and (1, 10), targets of -100 "
        "where no loss is taken, or the summed loss alone"
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda x: {"h": x}, "blocks.0 gives a dict"),
        (lambda x: (None, x), "blocks.0 gives a NoneType"),
        (lambda x: x.argmax(-1), "blocks.0 gives a tensor of shape (1, 10) and type torch.int64"),
    ],
)
def test_a_layer_that_gives_no_hidden_states_is_refused(answer, told: str) -> None:
    class Odd(nn.Linear):
        def forward(self, x: Tensor) -> object:
            return answer(super().forward(x))

    class Model(Stack):
        def run(self, h: Tensor) -> Tensor:
            self.blocks[0](h)
            return h

    model = Model()
    model.blocks = nn.ModuleList([Odd(6, 6)])
    assert refusal(lambda: Look.from_model(model, windows())) == (
        f"{told}; wanted a floating-point tensor (batch, length, width): name other layers with layers=[...]"
    )


def test_a_first_layer_that_is_given_no_hidden_states_is_refused() -> None:
    assert refusal(lambda: Look.from_model(lab(), windows(), layers=["tokens", "blocks.0"])) == (
        "the first layer, tokens, is given a tensor of shape (1, 10) and type torch.int64; wanted a floating-point "
        "tensor (batch, length, width): name other layers with layers=[...]"
    )


def test_a_layer_of_another_shape_is_refused() -> None:
    class Pooled(Stack):
        def run(self, h: Tensor) -> Tensor:
            return h + self.blocks[0](h.mean(1))[:, None]

    assert refusal(lambda: Look.from_model(Pooled(), windows(), layers=["blocks.0"])) == (
        "embedding gives a tensor of shape (1, 6); wanted (batch, length, width) = (1, 10, D): name other layers with "
        "layers=[...]"
    )


def test_a_layer_that_the_loss_does_not_need_is_refused() -> None:
    class Aside(Stack):
        def run(self, h: Tensor) -> Tensor:
            self.blocks[2](h)
            return h + self.blocks[1](h + self.blocks[0](h))

    assert refusal(lambda: Look.from_model(Aside(), windows())) == (
        "no gradient arrived at blocks.2: the loss does not depend on their output; name other layers with layers=[...]"
    )


def test_a_model_that_runs_without_gradients_is_refused() -> None:
    class Detached(Stack):
        def forward(self, ids: Tensor) -> Tensor:
            with torch.no_grad():
                return super().forward(ids)

    assert refusal(lambda: Look.from_model(Detached(), windows())) == (
        "the loss depends on no layer: is it detached, or computed under torch.no_grad()?"
    )


def test_a_model_that_fails_on_the_windows_says_how() -> None:
    long = torch.full((4, LENGTH + 1), 5)
    assert refusal(lambda: Look.from_model(SHAPES["gpt2"].model(), type(windows()).from_ids(long))) == (
        f"GPT2LMHeadModel fails on a window of {LENGTH + 1} tokens, IndexError: index out of range in self; are there "
        "more tokens than it has positions, or tokens of another tokenizer?"
    )


def test_tokens_beyond_the_vocabulary_are_refused() -> None:
    model = Stack()
    model.tokens = nn.Embedding(VOCAB + 40, 6)
    ids = torch.full((4, 5), 7)
    ids[3, 2] = VOCAB + 3
    assert refusal(lambda: Look.from_model(model, type(windows()).from_ids(ids))) == (
        f"the windows hold the token {VOCAB + 3}, Stack knows {VOCAB} tokens: cut them with the model's own tokenizer"
    )
