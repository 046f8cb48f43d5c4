import { DevMesh } from "../../kit/dev_mesh.ts";
import { workers } from "../../stories/workers.ts";

workers(DevMesh);
