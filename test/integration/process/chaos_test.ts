import { DevMesh } from "../../kit/dev_mesh.ts";
import { chaos } from "../../stories/chaos.ts";

for (const protocol of ["http", "grpc"] as const) {
  chaos(DevMesh, { protocol, seconds: 8, flipEveryMs: 400 });
}
