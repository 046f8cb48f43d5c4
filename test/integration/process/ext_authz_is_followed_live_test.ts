import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { extAuthz } from "../../stories/ext_authz.ts";

extAuthz(DevMesh);
