import { DevMesh } from "../../kit/dev_mesh.ts";
import { extAuthz } from "../../stories/ext_authz.ts";

extAuthz(DevMesh);
