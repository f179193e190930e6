#ifdef __CLING__
#if VERSION == 2
#pragma link C++ class Added+;
#endif
#pragma link C++ class Grown+;
#pragma link C++ struct Plain+;
#pragma link C++ class std::vector<Grown>+;
#pragma link C++ class std::vector<Plain>+;
#pragma link C++ class std::map<int, Grown>+;
#pragma link C++ class Grower+;
#pragma link C++ function write_versions;
#endif
