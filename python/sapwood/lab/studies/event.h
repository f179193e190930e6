// A track of `sapwood lab event` as an object, for ROOT's program and the dictionary that it needs.
#ifndef SAPWOOD_LAB_EVENT
#define SAPWOOD_LAB_EVENT

struct Track {
   float px, py, pz, random, mass2, bx, by, mean_charge, xfirst, xlast, yfirst, ylast, zfirst, zlast;
   int charge, npoint;
   short valid;
};

#endif
