import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { chosenTargets } from "../../stories/chosen_targets.ts";

chosenTargets(DevMesh);
