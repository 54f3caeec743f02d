"""ParameterServerStrategy: the chief schedules steps on the workers. The parameter servers store the variables."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before the import of TensorFlow

import numpy as np
import tensorflow as tf

cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc", start=True
    )
    print(f"{cluster.task_type} {cluster.task_id} serves")
    server.join()  # runs until the gang succeeds

strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))
    steps = tf.Variable(0, dtype=tf.int64)
print(f"variables on {weights.device}")

rng = np.random.default_rng(seed=5)
x = tf.constant(rng.normal(size=(500, 4)), tf.float32)
y = x @ tf.constant([[1.0], [-2.0], [3.0], [0.5]])


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ weights - y))
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    steps.assign_add(1)
    return loss


first = coordinator.fetch(coordinator.schedule(step))
for _ in range(80):
    coordinator.schedule(step)  # on any idle worker
coordinator.join()
last = coordinator.fetch(coordinator.schedule(step))
workers = len(cluster.cluster_spec().job_tasks("worker"))
print(f"chief of {workers} workers: {steps.numpy()} steps, loss {first:.3f} -> {last:.3f}")
assert last < first / 2, "the loss has to fall"
