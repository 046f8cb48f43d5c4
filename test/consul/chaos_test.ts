import { CONSUL } from "../kit/mesh/consul.ts";
import { chaos } from "../stories/chaos.ts";

for (const protocol of ["http", "grpc"] as const) {
  chaos(CONSUL, { protocol, seconds: 25, flipEveryMs: 1_000 });
}
