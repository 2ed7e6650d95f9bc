#!/usr/bin/env python3
"""All of graphs/mnist.ron by JAX, as fast as JAX can: from the files to the accuracy after each of five epochs.

Usage: jax_whole_run.py FOLDER        FOLDER has the four files of MNIST. Prints accuracies and seconds from here.
All epochs are one compiled loop over resident images, the shuffled gather included. The 96 images of each epoch that
make no whole batch are left out, which the engine trains on too.
"""
import gzip
import sys
import time

START = time.perf_counter()
import jax  # noqa: E402, importing it is part of the run
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

EPOCHS, BATCH = 5, 128
STEPS = 60_000 // BATCH


def main():
    images, labels = read("train", "images"), read("train", "labels")
    test_images, test_labels = read("t10k", "images"), read("t10k", "labels")
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, EPOCHS * STEPS, alpha=1e-2))
    keys = jax.random.split(jax.random.PRNGKey(42), 3)
    params = {
        "w1": jax.random.normal(keys[0], (784, 256)) * (2 / 784) ** 0.5, "b1": jnp.zeros(256),
        "w2": jax.random.normal(keys[1], (256, 10)) * (2 / 266) ** 0.5, "b2": jnp.zeros(10),
    }

    def step(carry, rows):
        params, state = carry
        gradients = jax.grad(loss)(params, images[rows], labels[rows])
        updates, state = optimizer.update(gradients, state)
        return (optax.apply_updates(params, updates), state), None

    def epoch(carry, key):
        order = jax.random.permutation(key, 60_000)[: STEPS * BATCH].reshape(STEPS, BATCH)
        carry, _ = jax.lax.scan(step, carry, order)
        return carry, jnp.mean(logits(carry[0], test_images).argmax(1) == test_labels)

    @jax.jit
    def train(params, key):
        return jax.lax.scan(epoch, (params, optimizer.init(params)), jax.random.split(key, EPOCHS))[1]

    accuracies = np.asarray(train(params, keys[2]))
    print(f"{jax.default_backend()}: accuracy {', '.join(f'{x:.4f}' for x in accuracies)}, {time.perf_counter() - START:.3f} s")


def logits(params, images):
    x = images.astype(jnp.float32) / 255
    return jax.nn.relu(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss(params, images, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels).mean()


def read(split, what):
    """Images as rows of bytes, or labels."""
    kind, offset = ("idx3", 16) if what == "images" else ("idx1", 8)
    with gzip.open(f"{sys.argv[1]}/{split}-{what}-{kind}-ubyte.gz") as file:
        values = np.frombuffer(file.read(), np.uint8, offset=offset)
    return jnp.asarray(values.reshape(-1, 784) if what == "images" else values.astype(np.int32))


if __name__ == "__main__":
    main()
