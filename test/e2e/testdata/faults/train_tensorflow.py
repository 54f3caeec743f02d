import tensorflow as tf

from steps import end, steps

cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster.task_type in ("worker", "ps"):
    tf.distribute.Server(
        cluster.cluster_spec(), job_name=cluster.task_type, task_index=cluster.task_id, protocol="grpc", start=True
    ).join()
strategy = tf.distribute.ParameterServerStrategy(cluster)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0, dtype=tf.int64)


@tf.function
def add(step):
    total.assign_add(step)


for step in steps():
    coordinator.schedule(add, args=(tf.constant(step, tf.int64),))
    coordinator.join()
end(total.numpy())
