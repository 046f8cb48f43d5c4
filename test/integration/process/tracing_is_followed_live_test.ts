import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { tracing } from "../../stories/tracing.ts";

tracing(DevMesh);
