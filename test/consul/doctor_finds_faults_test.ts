import { CONSUL } from "../kit/mesh/consul.ts";
import { doctorFindsFaults } from "../stories/doctor_finds_faults.ts";

doctorFindsFaults(CONSUL);
