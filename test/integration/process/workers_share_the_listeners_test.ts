import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { workers } from "../../stories/workers.ts";

workers(DevMesh);
