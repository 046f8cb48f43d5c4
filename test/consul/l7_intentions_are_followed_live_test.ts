import { CONSUL } from "../kit/mesh/consul.ts";
import { permissionFlip } from "../stories/permission_flip.ts";

permissionFlip(CONSUL);
