import { DevMesh } from "../../kit/dev_mesh.ts";
import { chaos } from "../../stories/chaos.ts";

chaos(DevMesh, { protocol: "grpc", seconds: 6, flipEveryMs: 300 });
