import { DevMesh } from "../../kit/dev_mesh.ts";
import { explained } from "../../stories/explain.ts";

explained(DevMesh);
