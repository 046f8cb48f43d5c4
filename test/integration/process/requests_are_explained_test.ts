import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { explained } from "../../stories/explain.ts";

explained(DevMesh);
