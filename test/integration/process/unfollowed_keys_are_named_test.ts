import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { unfollowedKeys } from "../../stories/unfollowed_keys.ts";

unfollowedKeys(DevMesh);
