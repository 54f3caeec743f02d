import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

from steps import end, steps

jax.distributed.initialize()
add = jax.pmap(lambda x: jax.lax.psum(x, "devices"), axis_name="devices")
total = 0
for step in steps():
    total += int(add(jnp.full(jax.local_device_count(), step * (jax.process_index() + 1)))[0])
end(total)
multihost_utils.sync_global_devices("done")
