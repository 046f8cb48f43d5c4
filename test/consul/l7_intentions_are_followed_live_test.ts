import { CONSUL } from "../kit/consul.ts";
import { permissionFlip } from "../stories/permission_flip.ts";

permissionFlip(CONSUL);
