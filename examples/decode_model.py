"""A model of two decode layers with random weights generates tokens: no language, but every part of the path."""

from whet.decode import Model

model = Model.random(seed=7, weight_type="int8", depth=2, vocabulary=97)
tokens = model.generate([3, 1, 4], 20, kv_type="bf16")
print("tokens", tokens)

again = Model.random(seed=7, weight_type="int8", depth=2, vocabulary=97, workers=1)
print("the same with one worker:", again.generate([3, 1, 4], 20, kv_type="bf16") == tokens)
