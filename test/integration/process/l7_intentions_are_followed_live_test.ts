import { DevMesh } from "../../kit/dev_mesh.ts";
import { permissionFlip } from "../../stories/permission_flip.ts";

permissionFlip(DevMesh);
