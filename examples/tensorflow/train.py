"""MultiWorkerMirroredStrategy: every worker has a copy of the model, and the copies stay equal."""

import hashlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import of TensorFlow

import numpy as np
import tensorflow as tf

# The strategy reads TF_CONFIG and waits for all workers. A single worker has no TF_CONFIG and no task ID.
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank, size = strategy.cluster_resolver.task_id or 0, strategy.num_replicas_in_sync

# Each worker has its own rows.
rng = np.random.default_rng(seed=rank)
x = tf.constant(rng.normal(size=(500, 4)), tf.float32)
y = x @ tf.constant([[1.0], [-2.0], [3.0], [0.5]])

with strategy.scope():
    # An assignment sets the mean of the values of all workers on every worker.
    weights = tf.Variable(tf.zeros([4, 1]), aggregation=tf.VariableAggregation.MEAN)


@tf.function
def step():
    def descend():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weights - y))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.MEAN, strategy.run(descend), axis=None)


loss = [float(step()) for _ in range(40)]  # of the rows of all workers
digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()[:16]
print(f"rank {rank} world_size {size} loss {loss[0]:.3f} -> {loss[-1]:.3f} model {digest}")
assert loss[-1] < loss[0] / 2, "the loss has to fall"
