import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { permissionFlip } from "../../stories/permission_flip.ts";

permissionFlip(DevMesh);
