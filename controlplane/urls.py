
urlpatterns: list[object] = []
