import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { intentionFlip } from "../../stories/intention_flip.ts";

intentionFlip(DevMesh);
