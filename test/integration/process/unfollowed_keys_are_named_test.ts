import { DevMesh } from "../../kit/dev_mesh.ts";
import { unfollowedKeys } from "../../stories/unfollowed_keys.ts";

unfollowedKeys(DevMesh);
