import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { missingRights } from "../../stories/missing_rights.ts";

missingRights(DevMesh);
