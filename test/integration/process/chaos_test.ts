import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { chaos } from "../../stories/chaos.ts";

chaos(DevMesh, { protocol: "grpc", seconds: 6, flipEveryMs: 300 });
