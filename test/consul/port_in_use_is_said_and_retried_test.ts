import { CONSUL } from "../kit/mesh/consul.ts";
import { portInUse } from "../stories/port_in_use.ts";

portInUse(CONSUL);
