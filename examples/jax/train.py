"""A sum over all processes after jax.distributed.initialize() without arguments."""

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize()
rank, size = jax.process_index(), jax.process_count()

ones = jnp.ones(jax.local_device_count())
total = jax.pmap(lambda x: jax.lax.psum(x, "devices"), axis_name="devices")(ones)
print(f"rank {rank} world_size {size} devices {jax.device_count()} sum {int(total[0])}")
assert int(total[0]) == jax.device_count(), "the sum of ones is the number of devices"
assert size == 1 or jax.device_count() > jax.local_device_count(), "the other processes' devices are part of it"

multihost_utils.sync_global_devices("done")
