import { CONSUL } from "../kit/consul.ts";
import { portInUse } from "../stories/port_in_use.ts";

portInUse(CONSUL);
