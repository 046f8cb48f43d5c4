import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { stateDirectory } from "../../stories/state_directory.ts";

stateDirectory(DevMesh);
